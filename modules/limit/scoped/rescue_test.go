// SPDX-License-Identifier: Apache-2.0

package scoped

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/child"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/kernel/sockets"
	"weir/kernel/sockets/rescuer"
	"weir/kernel/testutil"
)

func TestMain(m *testing.M) {
	child.Main(child.Parts{rescuer.Part: rescuer.Rescue, runPart: runScript})
	os.Exit(withoutHost(m))
}

// withoutHost runs the tests with files of their own in place of the host's.
func withoutHost(m *testing.M) int {
	dir, err := os.MkdirTemp("", "weir-scoped-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		err = os.Setenv("WEIR_RUN_DIR", dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// runScript runs a shell command under a limit, its first line, which has the rest as its input.
func runScript(in io.Reader, _ io.Writer) error {
	var line []byte
	for octet := make([]byte, 1); ; line = append(line, octet[0]) {
		if _, err := io.ReadFull(in, octet); err != nil {
			return err
		}
		if octet[0] == '\n' {
			break
		}
	}
	_, err := Run(context.Background(), Command{Args: []string{"bash", "-c", string(line)}, Limits: capped()})
	return err
}

// link joins two namespaces, 10.9.0.1 and 10.9.0.2.
func link(t *testing.T) (here, there *netns.Namespace) {
	t.Helper()
	here, there = testutil.Namespace(t, "here"), testutil.Namespace(t, "there")
	for i, ns := range []*netns.Namespace{here, there} {
		conn, err := rtnl.Open(ns)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if i == 0 {
			err = conn.AddVeth("eth0", there, "eth0", 0)
		}
		address := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 9, 0, byte(1 + i)}), 24)
		if err := errors.Join(err, conn.AddAddress("eth0", address), conn.SetUp("eth0")); err != nil {
			t.Fatal(err)
		}
	}
	return here, there
}

// joined is a link, and an echo at its other end.
func joined(t *testing.T) (here *netns.Namespace, echo netip.AddrPort) {
	t.Helper()
	here, there := link(t)
	var listener net.Listener
	err := there.Do(func() (err error) {
		listener, err = net.Listen("tcp", "10.9.0.2:0")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_, _ = io.Copy(conn, conn)
			_ = conn.Close()
		}
	}()
	return here, netip.MustParseAddrPort(listener.Addr().String())
}

// A connection that outlives the limiting process after kill -9 is no longer paced.
func TestSocketsAreRestoredAfterKill(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Command(t, "bash")
	t.Setenv("WEIR_RUN_DIR", t.TempDir())
	here, echo := joined(t)
	service := testutil.Cgroup(t)
	folder, err := os.Open(service.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = folder.Close() }()
	process, err := child.StartIn(t.Context(), "run", os.Stderr, func(attr *syscall.SysProcAttr) error {
		attr.UseCgroupFD, attr.CgroupFD = true, int(folder.Fd())
		return here.Enter()
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.In.Close() }) // the command ends
	script := fmt.Sprintf("exec 3<>/dev/tcp/%s/%d; echo $$; while read line; do echo $line >&3; read line <&3; echo $line; done\n", echo.Addr(), echo.Port())
	answers := bufio.NewScanner(process.Out)
	ask := func(what string) string {
		t.Helper()
		if _, err := io.WriteString(process.In, what); err != nil || !answers.Scan() {
			t.Fatalf("the command has ended: %v", err)
		}
		return answers.Text()
	}
	var pid int
	if _, err := fmt.Sscan(ask(script), &pid); err != nil {
		t.Fatal(err)
	}
	if got := ask("hello\n"); got != "hello" {
		t.Fatalf("the echo returned %q", got)
	}
	command, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(command) }()
	socket, err := unix.PidfdGetfd(command, 3, 0)
	if err != nil {
		testutil.Need(t, "pidfd_getfd", err)
	}
	defer func() { _ = unix.Close(socket) }()
	paced := func() uint32 {
		rate, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_MAX_PACING_RATE)
		if err != nil {
			t.Fatal(err)
		}
		return uint32(rate)
	}
	if paced() == 1<<32-1 {
		testutil.Need(t, "sk_storage-updates", errors.New("the connection is not paced"))
	}
	// A service manager sends SIGTERM to the remaining processes.
	pids, err := service.Processes()
	if err != nil || len(pids) < 2 {
		t.Fatalf("no rescuer is left to restore sockets: %v, %v", pids, err)
	}
	for _, pid := range pids {
		if pid != process.PID() {
			_ = unix.Kill(pid, unix.SIGTERM)
		}
	}
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, 30*time.Second, "the connection is set free", func() bool { return paced() == 1<<32-1 })
	of := func(group string) bool {
		members, err := os.ReadFile(group + "/cgroup.procs")
		return err == nil && slices.Contains(strings.Fields(string(members)), fmt.Sprint(pid))
	}
	groups, err := filepath.Glob(filepath.Join(service.Path, prefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(groups, of)
	if at < 0 {
		t.Fatal("the command has ended with the limit")
	}
	// The next command removes the cgroup of an abandoned command.
	_ = process.In.Close()
	testutil.Eventually(t, 30*time.Second, "the command's end", func() bool { return os.Remove(groups[at]) == nil })
}

// besidesKeeping omits the message of kernels that cannot restore sockets.
func besidesKeeping(say func(string)) func(string) {
	return func(what string) {
		if !strings.Contains(what, "kill -9") {
			say(what)
		}
	}
}

// steers is a treatment on a kernel that cannot restore sockets.
type steers struct{}

func (steers) Close() error                    { return nil }
func (steers) Rescue() (sockets.Rescue, error) { return sockets.Rescue{}, sockets.ErrNoIterator }

func TestAKernelThatCannotRestoreSocketsIsReported(t *testing.T) {
	testutil.NeedRoot(t)
	t.Setenv("WEIR_RUN_DIR", t.TempDir())
	var said []string
	c := Command{Args: []string{"true"}, Notify: func(what string) { said = append(said, what) },
		Treatments: []Treatment{func(string) (io.Closer, error) { return steers{}, nil }}}
	out, err := Run(t.Context(), c)
	if err != nil || out.Status != 0 || len(said) != 1 || !strings.Contains(said[0], "kill -9") || !strings.Contains(said[0], "iter/tcp") {
		t.Errorf("%+v, %v, said %q", out, err, said)
	}
}
