# The training job: training/run.sh and its dependencies. Reads /data, writes /out. Build from the repository root:
#   docker build --file docker/training.Dockerfile --tag crosslet-training .
#   docker build --file docker/training.Dockerfile --tag crosslet-training:cuda --build-arg TORCH=cuda .     # for a GPU
# Put your own configuration into the folder mounted at /data:
#   docker run --user "$(id -u):$(id -g)" --volume DIR:/data:ro --volume OUT:/out crosslet-training --config /data/mine.yaml
FROM docker.io/library/python:3.11-slim
ARG TORCH=cpu
# For stages with `compile: true`.
RUN apt-get update && apt-get install --yes --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/crosslet
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
COPY requirements/build.txt requirements/training.txt requirements/torch-${TORCH}.txt requirements/
COPY scripts/install-torch.sh scripts/wheel_names.py scripts/
RUN python3 -m venv /opt/venv \
    && /opt/venv/bin/pip install --require-hashes --no-deps -r requirements/build.txt -r requirements/training.txt \
    && scripts/install-torch.sh /opt/venv/bin/python "${TORCH}"
COPY pyproject.toml README.md LICENSE ./
COPY crosslet crosslet
COPY service service
COPY training training
COPY export export
COPY models/default models/default
RUN /opt/venv/bin/pip install --no-deps --no-build-isolation --editable .
# Readable for any user, whatever the checkout's umask was.
RUN chmod -R a+rX /opt/crosslet
ARG REVISION=unknown
LABEL org.opencontainers.image.title="crosslet-training" \
      org.opencontainers.image.description="Distils small cross-lingual sentence encoders" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.revision="${REVISION}"
RUN groupadd --gid 10001 crosslet \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /out --shell /usr/sbin/nologin crosslet \
    && install --directory --owner=10001 --group=10001 /data /out
# Caches are in a folder that any user of the container may write.
ENV PATH="/opt/venv/bin:$PATH" \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    CROSSLET_PYTHON=/opt/venv/bin/python \
    CROSSLET_REVISION=$REVISION \
    ORT_DISABLE_TELEMETRY=1 \
    HF_HUB_DISABLE_TELEMETRY=1 \
    HF_UPDATE_DOWNLOAD_COUNTS=0 \
    DISABLE_SAFETENSORS_CONVERSION=true \
    DO_NOT_TRACK=1 \
    HF_HOME=/tmp/huggingface
VOLUME /data /out
USER 10001:10001
STOPSIGNAL SIGTERM
# Arguments replace CMD. They may repeat --data or --out to name another folder in a volume: the later one wins.
ENTRYPOINT ["training/run.sh", "--data", "/data", "--out", "/out"]
CMD ["--config", "training/configs/default.yaml"]
