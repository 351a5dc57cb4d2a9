"""The commands of `crosslet`, from arguments to exit status.

May import all of the service.
"""
