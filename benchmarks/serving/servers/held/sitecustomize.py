"""Gives ONNX Runtime one thread for each core of this process. Python imports this module at startup.

ONNX Runtime counts the machine's cores, not those that `taskset` allows. Pinned to one core of two, its two threads
would wait for each other, unlike on a single-core machine. With all cores of the machine, this module changes nothing.
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
