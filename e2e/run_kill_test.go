// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/kernel/cgroup"
	"weir/kernel/netns"
	"weir/kernel/testutil"
)

// patience is for guests in software emulation, where a command takes half a minute to start.
const patience = 2 * time.Minute

// endless sends data without end to a peer, over 10 Mbit/s with a queue of seconds, and returns its
// address and the connection.
func (f *far) endless(t *testing.T) (port string, accepted <-chan *net.TCPConn) {
	t.Helper()
	if out, err := exec.Command("tc", "-n", f.ns.Name, "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "10mbit", "burst", "5kb", "limit", "4mb").CombinedOutput(); err != nil {
		testutil.Need(t, "sch_tbf", fmt.Errorf("%w: %s", err, out))
	}
	var listener *net.TCPListener
	err := f.ns.Do(func() (err error) {
		listener, err = net.ListenTCP("tcp4", &net.TCPAddr{IP: net.ParseIP(farAddress)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	of := make(chan *net.TCPConn, 1)
	go func() {
		conn, err := listener.AcceptTCP()
		if err != nil {
			return
		}
		of <- conn
		for zeros := make([]byte, 64<<10); err == nil; {
			_, err = conn.Write(zeros)
		}
		_ = conn.Close()
	}()
	_, port, _ = net.SplitHostPort(listener.Addr().String())
	return port, of
}

// download is a connection of a command, from both ends.
type download struct {
	*testing.T
	pid    int // of the receiver
	socket int // at the receiver
	sender *net.TCPConn
}

// downloading returns the download of a script when it receives; file is a place for its process
// id.
func (f *far) downloading(t *testing.T, file string, accepted <-chan *net.TCPConn) *download {
	t.Helper()
	d := &download{T: t}
	testutil.Eventually(t, patience, "the command connects", func() bool {
		text, _ := os.ReadFile(file)
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		d.pid = pid
		return err == nil
	})
	t.Cleanup(func() { _ = unix.Kill(d.pid, unix.SIGKILL) })
	d.sender = <-accepted
	t.Cleanup(func() { _ = d.sender.Close() })
	process, err := unix.PidfdOpen(d.pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(process) }()
	if d.socket, err = unix.PidfdGetfd(process, 3, 0); err != nil {
		testutil.Need(t, "pidfd_getfd", err)
	}
	t.Cleanup(func() { _ = unix.Close(d.socket) })
	return d
}

// window returns the bound of the receive window, the advertised window as the sender knows it, and
// the received bytes.
func (d *download) window() (bound int, advertised uint32, received uint64) {
	d.Helper()
	bound, err := unix.GetsockoptInt(d.socket, unix.IPPROTO_TCP, unix.TCP_WINDOW_CLAMP)
	here, failed := unix.GetsockoptTCPInfo(d.socket, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err := errors.Join(err, failed); err != nil {
		d.Fatal(err)
	}
	raw, err := d.sender.SyscallConn()
	if err != nil {
		d.Fatal(err)
	}
	var there *unix.TCPInfo
	if err := errors.Join(raw.Control(func(fd uintptr) { there, failed = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }), failed); err != nil {
		d.Fatal(err)
	}
	return bound, there.Snd_wnd, here.Bytes_received
}

// isHeld waits until the window is bounded to a short queue's size at 10 Mbit/s; the kernel would
// have it above 64 KB.
func (d *download) isHeld() {
	d.Helper()
	const most = 30_000
	testutil.Eventually(d.T, patience, "the window is held", func() bool {
		bound, advertised, received := d.window()
		return bound <= most && advertised <= most && received > 300_000
	})
}

// isFree waits until it is not bounded any more.
func (d *download) isFree() {
	d.Helper()
	var bound int
	var advertised uint32
	testutil.Eventually(d.T, patience, "the window is given back", func() bool {
		bound, advertised, _ = d.window()
		return bound > 60_000 && advertised > 40_000
	})
	d.Logf("bound %d, advertised %d", bound, advertised)
}

// ends ends the command, which outlives its limit, and waits for the removal of its cgroup.
func (d *download) ends() {
	d.Helper()
	group, err := cgroup.Of(d.pid)
	if err != nil || !strings.HasPrefix(filepath.Base(group.Path), "weir-run-") {
		d.Fatalf("the command is in %s, %v", group.Path, err)
	}
	_ = unix.Kill(d.pid, unix.SIGKILL)
	testutil.Eventually(d.T, patience, "the removal of "+group.Path, func() bool {
		err := os.Remove(group.Path)
		return err == nil || errors.Is(err, os.ErrNotExist)
	})
}

// receives is a script that receives from the far end, and writes its process id to a file.
func receives(file, port string) string {
	return fmt.Sprintf("exec 3<>/dev/tcp/%s/%s; echo $$ >%s; exec cat <&3 >/dev/null", farAddress, port, file)
}

// said returns the standard error of a command, from a file that outlives it.
func said(t *testing.T, cmd *exec.Cmd) func() string {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "said")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	cmd.Stderr = file
	return func() string {
		text, _ := os.ReadFile(file.Name())
		return string(text)
	}
}

// needDownloads skips the test if the kernel cannot throttle downloads, or cannot restore windows;
// both must be reported.
func needDownloads(t *testing.T, said string) {
	t.Helper()
	for sign, feature := range map[string]string{"what it downloads takes": "jit", "kill -9": "tracing"} {
		if strings.Contains(said, sign) {
			testutil.Need(t, feature, errors.New(said))
		}
	}
}

// The window of a download that outlives weir run, killed with -9, is restored.
func TestAWindowIsGivenBackAfterKill(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Command(t, "bash")
	here := testutil.Namespace(t, "here")
	f := newFar(t, here)
	port, accepted := f.endless(t)
	file := filepath.Join(t.TempDir(), "pid")
	cmd := exec.Command("nsenter", "--net="+netns.Path(here.Name), "--", binary, "run", "--class", "lbe", "--", "bash", "-c", receives(file, port))
	errors := said(t, cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d := f.downloading(t, file, accepted)
	needDownloads(t, errors())
	d.isHeld()
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	d.isFree()
	d.ends()
}

// So is that of a user's command, if either end is killed.
func TestAWindowOfAUserIsGivenBackAfterKill(t *testing.T) {
	for _, lender := range []bool{false, true} {
		t.Run(fmt.Sprintf("lender=%t", lender), func(t *testing.T) {
			l := newLending(t)
			port, accepted := l.far.endless(t)
			if err := os.Chmod(l.dir, 0o777); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(l.dir, "pid")
			cmd := l.inside(as(friend, binary, "run", "--class", "lbe", "--", "bash", "-c", receives(file, port))...)
			errors := said(t, cmd)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			d := l.far.downloading(t, file, accepted)
			needDownloads(t, errors()+l.said.String())
			d.isHeld()
			if lender {
				l.stop(syscall.SIGKILL)
			} else if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			d.isFree()
			d.ends()
			_ = cmd.Wait()
			if lender {
				l.start()
			}
			l.gone()
		})
	}
}
