"""The filter of system calls for commands in a sandbox, as bytes for the kernel.

It refuses calls that builds, tests and scripts don't need and that namespaces don't stop: kernel keyrings,
which are inherited; input into a terminal; files by their handle; and calls that were used to escape from
sandboxes. A refused call fails with EPERM. On an unknown processor there is no filter.
"""

import errno
import platform
import struct

LOAD, EQUAL, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
NUMBER, ARCHITECTURE, SECOND_ARGUMENT = 0, 4, 24
X32 = 0x4000_0000
TYPE_INTO_TERMINAL, CONSOLE = 0x5412, 0x541C  # TIOCSTI, TIOCLINUX

# Numbers since Linux 5 are the same everywhere: io_uring, open_tree to fspick, mount_setattr, quotactl_fd.
SHARED = (*range(425, 434), 442, 443)
X86_64 = {
    "add_key": 248, "request_key": 249, "keyctl": 250,
    "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "unshare": 272, "setns": 308,
    "open_by_handle_at": 304,
    "bpf": 321, "perf_event_open": 298, "userfaultfd": 323,
    "kexec_load": 246, "kexec_file_load": 320,
    "init_module": 175, "finit_module": 313, "delete_module": 176,
    "swapon": 167, "swapoff": 168, "reboot": 169, "syslog": 103, "acct": 163, "quotactl": 179,
    "settimeofday": 164, "clock_settime": 227, "sethostname": 170, "setdomainname": 171,
    "iopl": 172, "ioperm": 173,
}  # fmt: skip
AARCH64 = {
    "add_key": 217, "request_key": 218, "keyctl": 219,
    "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51, "unshare": 97, "setns": 268,
    "open_by_handle_at": 265,
    "bpf": 280, "perf_event_open": 241, "userfaultfd": 282,
    "kexec_load": 104, "kexec_file_load": 294,
    "init_module": 105, "finit_module": 273, "delete_module": 106,
    "swapon": 224, "swapoff": 225, "reboot": 142, "syslog": 116, "acct": 89, "quotactl": 60,
    "settimeofday": 170, "clock_settime": 112, "sethostname": 161, "setdomainname": 162,
}  # fmt: skip
# The kernel's name of the architecture, the calls to refuse, and the number of `ioctl`.
MACHINES = {"x86_64": (0xC000003E, X86_64, 16), "aarch64": (0xC00000B7, AARCH64, 29)}


def seccomp_filter(machine: str = "") -> bytes:
    """The filter for the processor of this machine; empty when the processor is unknown."""
    known = MACHINES.get(machine or platform.machine())
    if known is None:
        return b""
    architecture, calls, ioctl = known
    # A test that matches jumps to the last line, which refuses the call.
    numbers = [(EQUAL, each) for each in (*calls.values(), *SHARED)]
    if architecture == MACHINES["x86_64"][0]:
        numbers.insert(0, (AT_LEAST, X32))
    lines: list[tuple[int, int, int, int]] = [(LOAD, 0, 0, ARCHITECTURE)]
    rest = len(numbers) + 6
    lines.append((EQUAL, 0, rest, architecture))
    lines.append((LOAD, 0, 0, NUMBER))
    for at, (test, value) in enumerate(numbers):
        lines.append((test, len(numbers) - at + 4, 0, value))
    lines += [
        (EQUAL, 0, 3, ioctl),
        (LOAD, 0, 0, SECOND_ARGUMENT),
        (EQUAL, 2, 0, TYPE_INTO_TERMINAL),
        (EQUAL, 1, 0, CONSOLE),
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, REFUSE),
    ]
    return b"".join(struct.pack("=HBBI", *line) for line in lines)
