"""Gives ONNX Runtime as many threads as this process has cores. Read by Python itself, at its start.

By default ONNX Runtime counts the machine's cores, not those that `taskset` leaves: on one core of two, its two threads
would wait for each other, as they never do on a machine of one core. With all of the machine's cores nothing changes.
"""

import os

cores = len(os.sched_getaffinity(0))
if cores < (os.cpu_count() or 1):
    import onnxruntime

    class InferenceSession(onnxruntime.InferenceSession):
        def __init__(
            self,
            path_or_bytes: object,
            sess_options: onnxruntime.SessionOptions | None = None,
            *rest: object,
            **more: object,
        ):
            options = sess_options or onnxruntime.SessionOptions()
            options.intra_op_num_threads = options.intra_op_num_threads or cores
            super().__init__(path_or_bytes, options, *rest, **more)

    onnxruntime.InferenceSession = InferenceSession
