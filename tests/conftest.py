"""What every test may rely on."""

import signal


def pytest_configure() -> None:
    """Let Ctrl-C arrive: a shell starts background jobs, and so all that they start, with it ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
