"""Ways out of the sandbox, as an attacker would try them. `test_sandbox_attacks.py` tries each one."""

import os

from tests.tools.sandbox_attack import Attack, py
from tests.tools.sandbox_targets import Ground

SYSCALL = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
LOOK = "for f in {files}; do cat $f 2>/dev/null | tr '\\0' '\\n' | grep -a of-the-machine; done"


def _link_out(place: Ground) -> None:
    (place.workspace / "link").symlink_to(place.outside)


def _git_is_a_link(place: Ground) -> None:
    (place.workspace / ".git").rename(place.base / "git")
    (place.workspace / ".git").symlink_to(place.outside)


def _fake_programs(place: Ground) -> None:
    folder = place.workspace / "bin"
    folder.mkdir()
    for name in ("bwrap", "bash", "sh", "sleep", "env", "prlimit", "docker", "setsid"):
        (folder / name).write_text(f"#!/bin/dash\n/bin/touch {place.outside}/ran-{name}\nexit 0\n")
        (folder / name).chmod(0o755)


FILES = [
    Attack("read a file outside of the workspace", "cat $SECRET_FILE"),
    Attack("make a symbolic link out and read through it", "ln -s $SECRET_FILE link && cat link"),
    Attack("read through a link that was there before", "cat link/secret", prepare=_link_out),
    Attack("write through a link that was there before", "echo x > link/new", prepare=_link_out),
    Attack("make a hard link to a file outside", "ln $SECRET_FILE hard && cat hard"),
    Attack("climb out with ..", "cat ../../outside/secret"),
    Attack(
        "open a file by its handle instead of its path",
        py(
            SYSCALL
            + """
class Handle(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint), ("kind", ctypes.c_int), ("data", ctypes.c_ubyte * 8)]
# The root folder's inode is 2 on ext4, and 128 or 256 elsewhere.
for number in (2, 128, 256):
    handle = Handle(8, 1, (ctypes.c_ubyte * 8)(*number.to_bytes(4, "little"), 0, 0, 0, 0))
    folder = os.open(os.getcwd(), os.O_RDONLY)
    if libc.syscall(304 if os.uname().machine == "x86_64" else 265, folder, ctypes.byref(handle), 0) >= 0:
        print(OUT)
"""
        ),
        root_only=True,
    ),
    Attack("read a private key in the home folder", "cat ~/.ssh/id_rsa"),
    Attack("write the home folder's .bashrc", "echo $OUT-later >> ~/.bashrc; true"),
    Attack("read Holdfast's own files in the workspace", "cat .config/holdfast/settings.toml"),
    Attack("read them after renaming the folder above", "mv .config c2; cat c2/holdfast/settings.toml"),
    Attack("read them by a hard link", "ln .config/holdfast/settings.toml x && cat x"),
    Attack("copy the folder above them", "cp -r .config c2; cat c2/holdfast/settings.toml"),
    Attack(
        "put other settings in their place",
        "mv .config c2; mkdir -p .config/holdfast; echo x > .config/holdfast/settings.toml",
    ),
    Attack(
        "take the mount away that hides them",
        "umount .config/holdfast; umount -l .config; cat .config/holdfast/settings.toml",
    ),
    Attack(
        "read what only root may read in /etc", "cat /etc/shadow | grep -q . && echo $OUT", root_only=True
    ),
    Attack(
        "write the system",
        "touch /usr/holdfast-was-here && echo $OUT && rm -f /usr/holdfast-was-here",
        root_only=True,
    ),
    Attack(
        "read a temporary file of another program",
        "cat $TEMPORARY_FILE",
    ),
    Attack(
        "find the folders of other conversations",
        "ls -d /tmp/holdfast-*sandbox-* && echo $OUT",
        works_bare=False,
    ),
    Attack("read shared memory in /dev/shm", "cat $MEMORY_FILE"),
]
PROCESSES = [
    Attack(
        "read the environment of the parent",
        "cat /proc/$PPID/environ | tr '\\0' '\\n'; cat /proc/1/environ; env",
        works_bare=False,
    ),
    Attack("read the environment of every process", LOOK.format(files="/proc/[0-9]*/environ")),
    Attack(
        "read files through other processes' descriptors and folders",
        LOOK.format(files="/proc/[0-9]*/cwd/secret"),
    ),
    Attack("read files through other processes' root", LOOK.format(files="/proc/[0-9]*/root$SECRET_FILE")),
    Attack(
        "find another process at all",
        "test -d /proc/$VICTIM && grep -q sleep /proc/$VICTIM/comm && echo $OUT",
    ),
    Attack("kill a process outside", "kill -9 $VICTIM; sleep 0.1; true"),
    Attack("kill every process", "kill -9 -1; true", works_bare=False),
    Attack(
        "attach to a process outside with ptrace",
        py(
            SYSCALL
            + """
if libc.ptrace(16, int(os.environ["VICTIM"]), 0, 0) == 0:
    print(OUT); libc.ptrace(17, int(os.environ["VICTIM"]), 0, 0)
"""
        ),
    ),
    Attack(
        "read the memory of a process outside",
        py("""
for pid in (os.environ["VICTIM"], "1"):
    try:
        lines = open(f"/proc/{pid}/maps").read().splitlines()
        memory = open(f"/proc/{pid}/mem", "rb", 0)
    except OSError:
        continue
    for line in lines:
        if "[stack]" in line:
            begin, end = (int(each, 16) for each in line.split()[0].split("-"))
            memory.seek(begin)
            if b"5ecret" + b"-of" in memory.read(end - begin):
                print(OUT)
"""),
    ),
    Attack(
        "overwrite the program that watches the sandbox",
        py("""
try:
    open("/proc/1/exe", "r+b"); print(OUT)
except OSError:
    pass
"""),
        works_bare=False,
    ),
    Attack(
        "use a descriptor that was left open",
        py("""
for number in range(3, 1024):
    try:
        os.fstat(number)
    except OSError:
        continue
    if os.readlink(f"/proc/self/fd/{number}") != "/proc/self/fd":
        print(OUT, number, os.readlink(f"/proc/self/fd/{number}"))
"""),
        works_bare=False,
    ),
    Attack("leave a process in the background", "sleep $TAG & true", works_bare=False),
    Attack("leave a daemon with a session of its own", "setsid sleep $TAG >/dev/null 2>&1 & sleep 0.1"),
    Attack(
        "leave a daemon twice forked, with no environment",
        '(env -i setsid sh -c "(setsid sleep $TAG &) " >/dev/null 2>&1 &) ; sleep 0.2',
    ),
    Attack(
        "survive the time limit", "trap '' TERM; setsid sleep $TAG & sleep $TAG", seconds=1, works_bare=False
    ),
    Attack(
        "start a job by systemd",
        "systemd-run --user --quiet true && echo $OUT; systemd-run true && echo $OUT",
        works_bare=False,
    ),
    Attack(
        "start a job by cron or at",
        "for f in /var/spool/cron /var/spool/at /etc/cron.d; do test -w $f && echo $OUT; done; true",
        works_bare=False,
    ),
]
RIGHTS = [
    Attack(
        "have capabilities",
        "grep -q 'Cap\\(Eff\\|Prm\\|Bnd\\|Amb\\|Inh\\):.*[1-9a-f]' /proc/self/status && echo $OUT",
    ),
    Attack(
        "gain rights by a setuid program",
        "grep -q 'NoNewPrivs:.0' /proc/self/status && echo $OUT; sudo -n true && echo $OUT; "
        "su -c true </dev/null && echo $OUT",
        works_bare=True,
    ),
    Attack(
        "make a setuid program",
        "cp /bin/dash own && chmod 4755 own && "
        "./own -c 'grep -q NoNewPrivs:.0 /proc/self/status' && echo $OUT",
    ),
    Attack("mount a file system", "mkdir m; mount -t tmpfs x m && echo $OUT && umount m", root_only=True),
    Attack(
        "make the system writable again",
        "mount -o remount,rw /usr && echo $OUT; mount -o remount,rw,bind / && echo $OUT",
        works_bare=False,
    ),
    Attack("make a user namespace inside", "unshare -Ur true && echo $OUT"),
    Attack("make a mount namespace inside", "unshare -m true && echo $OUT", root_only=True),
    Attack(
        "enter the namespaces of a process outside",
        "nsenter -t $VICTIM -m -p true && echo $OUT",
        root_only=True,
    ),
    Attack("change the root folder", "chroot / true && echo $OUT", root_only=True),
    Attack("make a device file for a disk", "mknod disk b 254 0 && echo $OUT", root_only=True),
    Attack(
        "read disks and memory in /dev",
        "for f in /dev/mem /dev/kmem /dev/port /dev/[sv]d? /dev/nvme* /dev/kmsg /dev/loop*; "
        "do test -e $f && echo $OUT; done; true",
    ),
    Attack(
        "type into a terminal",
        py("""
import fcntl, termios, pty
# Its own terminal, as a stand-in for one of the person.
above, below = pty.openpty()
try:
    os.setsid()
except OSError:
    pass
try:
    fcntl.ioctl(below, termios.TIOCSCTTY, 0)
    fcntl.ioctl(below, 0x5412, b"x")
    print(OUT)
except OSError:
    pass
"""),
        works_bare=False,
    ),
    Attack(
        "reach the terminals of people",
        "for f in /dev/pts/[0-9]*; do test -e $f && echo $OUT; done; echo x > /dev/tty && echo $OUT; true",
        works_bare=False,
    ),
    Attack(
        "change where core dumps go",
        'v=$(cat /proc/sys/kernel/core_pattern); echo "$v" > /proc/sys/kernel/core_pattern && echo $OUT',
        root_only=True,
    ),
    Attack(
        "press the system's magic key",
        "test -w /proc/sysrq-trigger && : >> /proc/sysrq-trigger && echo $OUT",
        works_bare=False,
    ),
    Attack(
        "write kernel settings in /sys or in cgroups",
        "for f in /sys/kernel /sys/fs/cgroup /sys/class; do test -e $f && echo $OUT; done; true",
    ),
    Attack("set the host's name", "hostname holdfast-x 2>/dev/null && echo $OUT", works_bare=False),
    Attack(
        "trace the kernel, load programs into it, use its rings",
        py(
            SYSCALL
            + """
# perf_event_open, bpf, userfaultfd, io_uring_setup
numbers = (298, 321, 323, 425) if os.uname().machine == "x86_64" else (241, 280, 282, 425)
buffer = ctypes.create_string_buffer(200)
for number in numbers:
    if libc.syscall(number, 2 if number == 425 else 0, buffer, 0, 0, 0) >= 0:
        print(OUT)
    elif ctypes.get_errno() != 1:
        print(OUT, "was not refused", number, ctypes.get_errno())
"""
        ),
    ),
    Attack(
        "reach refused calls by another numbering",
        py(
            SYSCALL
            + """
if libc.syscall(0x40000000 + 39) > 0:
    print(OUT)
"""
        ),
        works_bare=False,
    ),
]
SHARED = [
    Attack(
        "read a key in the kernel's keyring",
        py(
            SYSCALL
            + """
buffer = ctypes.create_string_buffer(200)
for ring in (-3, -4, -5):
    found = libc.syscall(250, 10, ring, b"user", os.environ["KEY_NAME"].encode(), 0)
    if found > 0 and libc.syscall(250, 11, found, buffer, 200) > 0:
        print(buffer.value.decode())
libc.syscall(249, b"user", os.environ["KEY_NAME"].encode(), None, 0)
"""
        ),
    ),
    Attack(
        "keep a key there for later",
        py(
            SYSCALL
            + """
if libc.syscall(248, b"user", b"holdfast-left", b"x", 1, -4) > 0:
    print(OUT)
"""
        ),
    ),
    Attack(
        "read System V shared memory",
        py(
            SYSCALL
            + """
libc.shmat.restype = ctypes.c_void_p
segment = libc.shmget(int(os.environ["SHM"]), 0, 0)
if segment >= 0:
    print(ctypes.string_at(libc.shmat(segment, None, 0x1000), 30).rstrip(b"\\0").decode())
"""
        ),
    ),
    Attack(
        "connect to a socket by its file",
        py("""
import socket
with socket.socket(socket.AF_UNIX) as it:
    it.connect(os.environ["SOCKET"]); print(it.recv(100).decode())
"""),
    ),
    Attack(
        "connect to ssh's agent",
        py("""
import socket
with socket.socket(socket.AF_UNIX) as it:
    it.connect(os.environ["SSH_AUTH_SOCK"]); print(it.recv(100).decode())
"""),
    ),
    Attack(
        "find docker, the buses, a display",
        "for f in /run/docker.sock /var/run/docker.sock /run/dbus /run/user /tmp/.X11-unix /run/systemd; "
        "do test -e $f && echo $OUT; done; "
        "env | grep -q '^\\(DISPLAY\\|DBUS_\\|DOCKER_HOST\\|XDG_RUNTIME\\)' && echo $OUT; true",
    ),
    Attack(
        "connect to an abstract socket, with no network",
        py("""
import socket
with socket.socket(socket.AF_UNIX) as it:
    it.connect("\\0" + os.environ["ABSTRACT"]); print(it.recv(100).decode())
"""),
        network=False,
    ),
    Attack(
        "connect to an abstract socket, with the network on",
        py("""
import socket
with socket.socket(socket.AF_UNIX) as it:
    it.connect("\\0" + os.environ["ABSTRACT"]); print(it.recv(100).decode())
"""),
        open="abstract sockets belong to the network",
    ),
    Attack(
        "connect to a port of this machine, with no network",
        "exec 3<>/dev/tcp/127.0.0.1/$PORT; cat <&3",
        network=False,
    ),
    Attack(
        "connect to a port of this machine, with the network on",
        "exec 3<>/dev/tcp/127.0.0.1/$PORT; cat <&3",
        open="the network is that of the machine",
    ),
    Attack(
        "ask a name server, with no network",
        py("""
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as it:
    it.settimeout(2)
    it.sendto(b"x", ("127.0.0.1", int(os.environ["PORT"]))); print(it.recv(100).decode())
"""),
        network=False,
    ),
]
START = [
    Attack("read a key in the environment", "env; set; export -p", works_bare=False),
    Attack("be run by BASH_ENV or ENV before the command", "true", works_bare=False),
    Attack("stand in for bwrap, bash or sh on PATH", "/bin/true", prepare=_fake_programs, works_bare=False),
    Attack("write a hook for git", "mkdir -p .git/hooks; echo $OUT > .git/hooks/pre-commit; true"),
    Attack("write git's settings", "git config core.fsmonitor $OUT; echo $OUT >> .git/config; true"),
    Attack(
        "put another .git in the place of this one",
        "mv .git g2; cp -r g2 .git; mkdir -p .git/hooks; echo $OUT > .git/hooks/pre-commit; true",
    ),
    Attack(
        "remove git's hooks and make them anew",
        "rm -rf .git/hooks; mkdir .git/hooks; echo $OUT > .git/hooks/pre-commit; true",
    ),
    Attack("have a .git that is a link out", "cat .git/secret; echo x > .git/new", prepare=_git_is_a_link),
    Attack("rename the workspace", 'mv "$PWD" "$PWD.away"; true', works_bare=True),
    Attack("delete the workspace", 'rm -rf "$PWD"; true', works_bare=True),
]
LIMITS = [
    Attack(
        "take more memory than allowed",
        py("kept = bytearray(1 << 29); print(OUT)"),
        settings={"memory_mb": 256},
    ),
    Attack(
        "compute longer than allowed",
        py(
            "import time\nwhile time.process_time() < 4: pass\nprint(OUT)",
        ),
        settings={"cpu_s": 1},
    ),
    Attack(
        "raise the limits again", "ulimit -d unlimited && echo $OUT; ulimit -c unlimited && echo $OUT; true"
    ),
    Attack(
        "fill the memory through /dev/shm",
        py("""
found = os.statvfs("/dev/shm")
if found.f_frsize * found.f_blocks > 2 << 30:
    print(OUT)
"""),
        works_bare=False,
    ),
    Attack("print without end", "yes", seconds=1, works_bare=False),
    Attack(
        "start more processes than allowed",
        py("""
import time
for _ in range(200):
    if os.fork() == 0:
        time.sleep(1.5)
        os._exit(0)
print(OUT)
"""),
        settings={"processes": 40},
        open="the kernel sets root no such limit" if os.geteuid() == 0 else "",
    ),
    Attack(
        "be spared when memory runs out",
        "grep -qx 1000 /proc/self/oom_score_adj || echo $OUT; echo 0 > /proc/self/oom_score_adj && echo $OUT",
    ),
]
ATTACKS: list[tuple[str, list[Attack]]] = [
    ("Files", FILES),
    ("Processes", PROCESSES),
    ("Rights", RIGHTS),
    ("What programs share", SHARED),
    ("Start and workspace", START),
    ("ResourceLimits", LIMITS),
]
EVERY = [attack for _, group in ATTACKS for attack in group]
