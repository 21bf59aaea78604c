// SPDX-License-Identifier: Apache-2.0

package attack

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// target is the knowledge of an attacker, available to any user of the host.
type target struct {
	Own, Shared [4]byte // destinations; only the attacker sends to Own
	Root, State string  // cgroup root and folder of the daemon's state
	Metrics     string
	Socket      string
	Daemon      int // process id
}

// means are the attacks, each in a separate process until it is killed. A forbidden action that
// succeeds is printed.
var means = map[string]func(target){
	"datagrams": floodDatagrams, "streams": floodStreams, "raw": floodRaw, "depth": floodDepth,
	"churn": churn, "locks": locks, "slow": slow, "rights": rights, "namespace": namespace,
}

// succeeded reports a success that an unprivileged user must not have.
func succeeded(what string, args ...any) { fmt.Printf("succeeded: "+what+"\n", args...) }

func address(ip [4]byte, port int) *unix.SockaddrInet4 {
	return &unix.SockaddrInet4{Port: port, Addr: ip}
}

// burst sends from one new socket with its own settings, and ignores rejections.
func burst(t target, round int) {
	protocol := []int{0, unix.IPPROTO_UDP, unix.IPPROTO_UDPLITE}[round%3]
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, protocol)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(fd) }()
	for _, option := range [][2]int{{unix.SO_PRIORITY, round % 7}, {unix.SO_MARK, 0x77}, {unix.SO_MAX_PACING_RATE, -1}, {unix.SO_SNDBUF, 1 << 22}} {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, option[0], option[1])
	}
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TOS, round&0xff)
	message := make([]byte, 1200)
	if round%4 == 1 && protocol != unix.IPPROTO_UDPLITE {
		message = make([]byte, 12000)
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, 1200)
	}
	to := address(t.Own, 6000)
	if round%2 == 1 {
		to = address(t.Shared, 6000)
	}
	if round%5 == 1 {
		_ = unix.Connect(fd, to)
	}
	for range 50 {
		_ = unix.Sendto(fd, message, unix.MSG_DONTWAIT, to)
	}
	<-time.After(5 * time.Millisecond) // leave CPU time to the victims
}

func floodDatagrams(t target) {
	for round := 0; ; round++ {
		burst(t, round)
	}
}

// floodStreams has connections of TCP and multipath TCP with all settings that it may choose.
func floodStreams(t target) {
	const mptcp = 262
	for round := 0; ; round++ {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, []int{0, mptcp}[round%2])
		if err != nil {
			continue
		}
		_ = unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, []string{"reno", "cubic", "bbr"}[round%3])
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MAX_PACING_RATE, -1)
		_ = unix.Connect(fd, address(t.Own, 7000))
		message := make([]byte, 64<<10)
		for end := time.Now().Add(time.Duration(round%5) * 200 * time.Millisecond); time.Now().Before(end); <-time.After(time.Millisecond) {
			_, _ = unix.Write(fd, message)
		}
		_ = unix.Close(fd)
	}
}

// floodRaw sends handmade IP packets, from addresses of others, if the right to raw sockets was
// granted.
func floodRaw(t target) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW)
	if err != nil {
		return
	}
	packet := make([]byte, 1400)
	packet[0], packet[8], packet[9] = 0x45, 64, 253
	copy(packet[12:], []byte{10, 9, 0, 3})
	for round := 0; ; round++ {
		to := t.Own
		copy(packet[16:], to[:])
		_ = unix.Sendto(fd, packet, unix.MSG_DONTWAIT, address(to, 0))
		if round%50 == 0 {
			<-time.After(5 * time.Millisecond)
		}
	}
}

// own returns the attacker's cgroup, which was given to him.
func (t target) own() string { return filepath.Join(t.Root, "evil", "his") }

func move(group string) error {
	return os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0)
}

// floodDepth sends from nested cgroups, deeper and deeper.
func floodDepth(t target) {
	path := filepath.Join(t.own(), "deep")
	for round := 0; ; round++ {
		if round%40 == 0 {
			path = filepath.Join(t.own(), "deep"+strconv.Itoa(round/40%3))
		}
		path = filepath.Join(path, "payload")
		_ = os.MkdirAll(path, 0o755)
		_ = move(path)
		burst(t, round)
	}
}

// churn creates and removes cgroups with the names of units and scopes.
func churn(t target) {
	for round := 0; ; round++ {
		for _, name := range []string{"one", "nginx.service", "two", "system.slice"} {
			path := filepath.Join(t.own(), name)
			_ = os.MkdirAll(filepath.Join(path, "three"), 0o755)
			_ = move(path)
			burst(t, round)
			_ = move(t.own())
			_ = os.Remove(filepath.Join(path, "three"))
			_ = os.Remove(path)
		}
		for _, other := range []string{"", "one", "two/three", "four"} {
			if move(filepath.Join(t.Root, other)) == nil {
				succeeded("a process was moved to cgroup /%s", other)
			}
		}
	}
}

// locks locks every accessible file of the daemon, and keeps the locks.
func locks(t target) {
	for {
		_ = filepath.WalkDir(t.State, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.Type()&fs.ModeSocket != 0 {
				return nil
			}
			fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK, 0)
			if err != nil {
				return nil
			}
			_ = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
			_ = unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_RDLCK})
			for _, name := range []string{"lock", "journal", "current"} {
				if unix.Mkfifo(filepath.Join(path, name), 0o666) == nil || os.Rename(filepath.Join(path, name), filepath.Join(path, "x")) == nil {
					succeeded("%s in %s was made or moved", name, path)
				}
			}
			return nil
		})
		<-time.After(10 * time.Second)
	}
}

// slow requests metrics on many connections and reads almost nothing.
func slow(t target) {
	for {
		var open []net.Conn
		for range 64 {
			conn, err := net.Dial("tcp", t.Metrics)
			if err != nil {
				break
			}
			_, _ = fmt.Fprint(conn, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
			_, _ = conn.Read(make([]byte, 1))
			open = append(open, conn)
		}
		<-time.After(3 * time.Second)
		for _, conn := range open {
			_ = conn.Close()
		}
	}
}

// rights tries actions that require rights that he lacks.
func rights(t target) {
	for ; ; <-time.After(100 * time.Millisecond) {
		for _, s := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGTERM, syscall.SIGKILL} {
			if unix.Kill(t.Daemon, s) == nil {
				succeeded("the daemon was sent %s", s)
			}
		}
		if conn, err := net.Dial("unix", t.Socket); err == nil {
			succeeded("the API's socket was opened")
			_ = conn.Close()
		}
		// BPF_PROG_GET_FD_BY_ID and BPF_MAP_GET_FD_BY_ID for all ids.
		for command := uintptr(13); command <= 14; command++ {
			for id := uint32(1); id < 200; id++ {
				attribute := [16]uint32{id}
				if _, _, errno := unix.Syscall(unix.SYS_BPF, command, uintptr(unsafe.Pointer(&attribute)), unsafe.Sizeof(attribute)); errno == 0 {
					succeeded("bpf(%d) gave object %d", command, id)
				}
			}
		}
		if fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0); err == nil {
			succeeded("a packet socket was opened")
			_ = unix.Close(fd)
		}
	}
}

// namespace impersonates another user, with another's mark and addresses, in his own namespaces.
func namespace(t target) {
	script := fmt.Sprintf(`ip link set lo up; ip link add a type veth peer name b; ip link set a up; ip link set b up
ip address add 10.9.0.1/24 dev a; ip neighbor add %[1]s lladdr 02:00:00:00:00:01 dev a
text=$(head -c 1200 /dev/zero | tr '\0' x); while :; do exec 3>/dev/udp/%[1]s/6000; for i in {1..200}; do echo "$text" >&3; done 2>/dev/null; sleep 0.02; done`, net.IP(t.Shared[:]))
	for {
		_ = exec.Command("unshare", "-U", fmt.Sprintf("--map-user=%d", victim), "--keep-caps", "-n", "bash", "-c", script).Run()
		<-time.After(time.Second)
	}
}

// attacker runs the means for which this process was started; it returns in any other.
func attacker() {
	text := os.Getenv("WEIR_ATTACK_MEANS")
	if text == "" {
		return
	}
	go func() { // it ends with its parent
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}()
	name, about, _ := strings.Cut(text, " ")
	var t target
	if err := errors.Join(decode(about, &t)); err != nil {
		succeeded("nothing: %v", err)
		os.Exit(1)
	}
	means[name](t)
}
