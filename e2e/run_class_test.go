// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/kernel/cgroup"
	"weir/kernel/netns"
	"weir/kernel/testutil"
)

// far is another host: it receives packets and reports their class.
type far struct {
	ns        *netns.Namespace
	datagrams *net.UDPConn
	listener  *net.TCPListener
}

const farAddress = "10.66.0.2"

func newFar(t *testing.T, here *netns.Namespace) *far {
	t.Helper()
	f := &far{ns: testutil.Namespace(t, "far")}
	for _, line := range []string{"-n " + here.Name + " link add eth0 type veth peer eth0 netns " + f.ns.Name,
		"-n " + here.Name + " address add 10.66.0.1/24 dev eth0", "-n " + f.ns.Name + " address add " + farAddress + "/24 dev eth0",
		"-n " + here.Name + " link set eth0 up", "-n " + f.ns.Name + " link set eth0 up"} {
		if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v\n%s", line, err, out)
		}
	}
	err := f.ns.Do(func() (err error) {
		if f.datagrams, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(farAddress)}); err != nil {
			return err
		}
		f.listener, err = net.ListenTCP("tcp4", &net.TCPAddr{IP: net.ParseIP(farAddress)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = f.datagrams.Close(), f.listener.Close() })
	raw, err := f.datagrams.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_RECVTOS, 1) })
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := f.listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
		}
	}()
	return f
}

// tos returns the DS field of the next datagram.
func (f *far) tos(t *testing.T) byte {
	t.Helper()
	_ = f.datagrams.SetReadDeadline(time.Now().Add(30 * time.Second))
	buffer, control := make([]byte, 100), make([]byte, 100)
	_, n, _, _, err := f.datagrams.ReadMsgUDP(buffer, control)
	if err != nil {
		t.Fatal(err)
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) != 1 {
		t.Fatalf("%d control messages, %v", len(messages), err)
	}
	return messages[0].Data[0]
}

func port(a net.Addr) string {
	_, port, _ := net.SplitHostPort(a.String())
	return port
}

// A command in a class sends in it; after it, kill -9 included, nobody does.
func TestACommandRunsInAClass(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Command(t, "bash")
	here := testutil.Namespace(t, "here")
	f := newFar(t, here)
	send := fmt.Sprintf("echo x >/dev/udp/%s/%s; ", farAddress, port(f.datagrams.LocalAddr()))
	connect := fmt.Sprintf("exec 3<>/dev/tcp/%s/%s; echo x >&3; read x <&3; ss -tin; ", farAddress, port(f.listener.Addr()))
	inside := func(arguments ...string) *exec.Cmd {
		return exec.Command("nsenter", append([]string{"--net=" + netns.Path(here.Name), "--"}, arguments...)...)
	}
	var stdout, stderr bytes.Buffer
	cmd := inside(binary, "run", "--class", "lbe", "--", "bash", "-c", send+connect+"exit 7")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	finish(t, cmd, cmd.Run(), &stdout, &stderr).want(t, 7)
	if got := f.tos(t); got != 1<<2 {
		t.Errorf("a datagram came with %#x, want LE's 0x4", got)
	}
	if !strings.Contains(stdout.String(), "weir_lbe") && !strings.Contains(stderr.String(), "keep the host's congestion control") {
		t.Errorf("the connection has another congestion control, and nobody says why:\n%s\n%s", stdout.String(), stderr.String())
	}
	outside := func() {
		t.Helper()
		if out, err := inside("bash", "-c", send).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	outside()
	if got := f.tos(t); got != 0 {
		t.Errorf("a datagram of nobody's came with %#x", got)
	}
	// The command outlives Weir until its input ends, and holds no other pipe of the test's.
	where := filepath.Join(t.TempDir(), "cgroup")
	cmd = inside(binary, "run", "--class", "AF21", "--limit", "100Mbit", "--", "bash", "-c", "cat /proc/self/cgroup >"+where+"; "+send+"read")
	input, output, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin = input
	if err := errors.Join(cmd.Start(), input.Close()); err != nil {
		t.Fatal(err)
	}
	if got := f.tos(t); got != 18<<2 {
		t.Errorf("a datagram came with %#x, want AF21's 0x48", got)
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	outside()
	if got := f.tos(t); got != 0 {
		t.Errorf("after kill -9 a datagram came with %#x", got)
	}
	// Its cgroup is removed by the next command.
	text, err := os.ReadFile(where)
	root, none := cgroup.Root()
	if err := errors.Join(err, none, output.Close()); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(root, string(regexp.MustCompile("(?m)/[^:]*weir-run-[0-9a-f]+$").Find(text)))
	testutil.Eventually(t, 30*time.Second, "the removal of "+left, func() bool {
		if out, err := inside(binary, "run", "--class", "best-effort", "--", "true").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		_, err := os.Stat(left)
		return filepath.Base(left) != filepath.Base(root) && errors.Is(err, fs.ErrNotExist)
	})
}

func TestAClassThatIsNoneIsNamed(t *testing.T) {
	for _, test := range []struct{ class, want string }{{"lbee", "write lbe"}, {"99", "0 to 63"}} {
		t.Run(test.class, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			cmd := exec.Command(binary, "run", "--class", test.class, "--", "true")
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			got := finish(t, cmd, cmd.Run(), &stdout, &stderr)
			got.want(t, 2)
			if !strings.Contains(got.stderr, test.want) {
				t.Errorf("--class %s: %s", test.class, got.stderr)
			}
		})
	}
}
