# The service: one process, no torch, not root. Build from the repository root:
#   docker build --file docker/service.Dockerfile --tag crosslet .
# --build-arg LOCK="milvus.txt mcp.txt traces.txt openai-ids.txt" adds what `CROSSLET_INDEX=milvus://..`, CROSSLET_MCP,
# traces and OpenAI's token ids need; each holds the service's packages, too.
FROM docker.io/library/python:3.11-slim AS build
WORKDIR /src
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
ARG LOCK=service.txt
COPY requirements requirements
# Two environments: build tools stay in this stage; the other one, without pip, is copied to the image.
RUN python3 -m venv /opt/build && /opt/build/bin/pip install --require-hashes --no-deps -r requirements/build.txt
RUN python3 -m venv --without-pip /opt/crosslet \
    && for lock in $LOCK; do \
        /opt/build/bin/pip --python /opt/crosslet/bin/python install --require-hashes --no-deps -r "requirements/$lock" || exit 1; done
COPY pyproject.toml README.md LICENSE ./
COPY scripts/wheel_names.py scripts/
COPY crosslet crosslet
COPY service service
COPY models/default models/default
COPY models/reranker models/reranker
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /tmp/wheels . \
    && /opt/build/bin/pip --python /opt/crosslet/bin/python install --no-deps /tmp/wheels/*.whl
# The bill of materials, by CycloneDX's own tool, which stays in this stage.
RUN python3 -m venv --without-pip /opt/sbom \
    && /opt/build/bin/pip --python /opt/sbom/bin/python install --require-hashes --no-deps -r requirements/sbom.txt \
    && /opt/sbom/bin/cyclonedx-py environment --output-reproducible --output-format JSON \
        --output-file /opt/crosslet/crosslet.cdx.json /opt/crosslet/bin/python3
COPY docker/healthcheck.py /opt/crosslet/healthcheck.py
# Readable for any user, whatever the checkout's umask was.
RUN chmod -R a+rX /opt/crosslet

FROM docker.io/library/python:3.11-slim
ARG REVISION=unknown
LABEL org.opencontainers.image.title="crosslet" \
      org.opencontainers.image.description="Small cross-lingual sentence encoders, served from little memory" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.revision="${REVISION}"
# A fixed uid, for `runAsNonRoot` and volume permissions.
RUN groupadd --gid 10001 crosslet \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin crosslet \
    && install --directory --owner=10001 --group=10001 /data
COPY --from=build /opt/crosslet /opt/crosslet
ENV PATH="/opt/crosslet/bin:$PATH" \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    ORT_DISABLE_TELEMETRY=1 \
    CROSSLET_HOST=0.0.0.0 \
    CROSSLET_PORT=8080 \
    CROSSLET_DATA=/data
WORKDIR /data
VOLUME /data
EXPOSE 8080
USER 10001:10001
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --retries=3 CMD ["python3", "/opt/crosslet/healthcheck.py"]
ENTRYPOINT ["crosslet"]
CMD ["serve"]
