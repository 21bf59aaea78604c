// SPDX-License-Identifier: Apache-2.0

package cc

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/child"
	"weir/kernel/cgroup"
	"weir/kernel/netns"
	"weir/kernel/sysctl"
	"weir/kernel/testutil"
)

// task is the input of the part "connect", which runs inside a cgroup.
type task struct {
	Namespace, Address, Choose string
	User, Mark                 int  // of the socket; 0 for the process's
	Listen                     bool // accept a connection instead of making one, after reporting the address
}

// connectPart makes or accepts one connection per task and reports its congestion control.
func connectPart(in io.Reader, out io.Writer) error {
	answers := json.NewEncoder(out)
	for tasks := json.NewDecoder(in); ; {
		var work task
		if err := tasks.Decode(&work); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		ns, err := netns.Open(work.Namespace)
		if err != nil {
			return err
		}
		var conn net.Conn
		err = ns.Do(func() (err error) {
			conn, err = work.connection(answers)
			return err
		})
		if err != nil {
			return err
		}
		name, err := controlOf(conn)
		if err == nil {
			_, err = conn.Write([]byte("x"))
		}
		_ = conn.Close()
		if err != nil {
			return err
		}
		if err := answers.Encode(name); err != nil {
			return err
		}
	}
}

func (work task) connection(answers *json.Encoder) (net.Conn, error) {
	if !work.Listen {
		dial := net.Dialer{Control: work.control}
		return dial.Dial("tcp4", work.Address)
	}
	config := net.ListenConfig{Control: work.control}
	config.SetMultipathTCP(false) // otherwise the kernel's own socket below belongs to another user
	listener, err := config.Listen(context.Background(), "tcp4", work.Address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = listener.Close() }()
	if err := answers.Encode(listener.Addr().String()); err != nil {
		return nil, err
	}
	return listener.Accept()
}

// control configures a socket for the task.
func (work task) control(network, address string, raw syscall.RawConn) error {
	var err error
	failed := raw.Control(func(fd uintptr) {
		if work.User != 0 {
			err = unix.Fchown(int(fd), work.User, -1)
		}
		if err == nil && work.Mark != 0 {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, work.Mark)
		}
	})
	return errors.Join(failed, err, choose(work.Choose)(network, address, raw))
}

// inCgroup starts a process in a cgroup of its own.
func inCgroup(t *testing.T) (group cgroup.Cgroup, send func(task), answer func() string) {
	t.Helper()
	group = testutil.Cgroup(t)
	process, err := child.Start(context.Background(), "connect", os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := process.Stop(5 * time.Second); err != nil {
			t.Error(err)
		}
	})
	if err := group.Add(process.PID()); err != nil {
		t.Fatal(err)
	}
	tasks, answers := json.NewEncoder(process.In), json.NewDecoder(process.Out)
	send = func(work task) {
		t.Helper()
		if err := tasks.Encode(work); err != nil {
			t.Fatal(err)
		}
	}
	return group, send, func() (text string) {
		t.Helper()
		if err := answers.Decode(&text); err != nil {
			t.Fatal(err)
		}
		return text
	}
}

// listen accepts connections during the test. Its congestion control decides whether an ECN-capable
// SYN, as sent by controls that need ECN, may negotiate ECN.
func (p *path) listen(t *testing.T, control string) net.Listener {
	t.Helper()
	var listener net.Listener
	config := net.ListenConfig{Control: choose(control)}
	err := p.server.Do(func() (err error) {
		listener, err = config.Listen(context.Background(), "tcp4", serverAddress+":0")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

func TestScopeGivesTheControlToItsNewConnections(t *testing.T) {
	testutil.Snapshot(t)
	control := install(t, Options{})
	p := newPath(t)
	dctcp, plain := p.listen(t, control.Name()).Addr().String(), p.listen(t, "").Addr().String()
	group, send, answer := inCgroup(t)
	if err := control.Attach(group.Path); err != nil {
		t.Fatal(err)
	}
	send(task{Namespace: p.client.Name, Address: dctcp})
	if got := answer(); got != control.Name() {
		t.Errorf("a connection of the cgroup has %s, not %s", got, control.Name())
	}
	send(task{Namespace: p.client.Name, Address: dctcp, Choose: "reno"})
	if got := answer(); got != "reno" {
		t.Errorf("the application chose reno and got %s", got)
	}
	send(task{Namespace: p.client.Name, Address: plain})
	if got := answer(); got == control.Name() {
		t.Errorf("a connection without ECN has %s", got)
	}
	send(task{Namespace: p.server.Name, Address: serverAddress + ":0", Listen: true})
	conn, err := p.dial(answer(), control.Name())
	if err == nil {
		err = conn.Close()
	}
	if got := answer(); err != nil || got != control.Name() {
		t.Errorf("a connection that the cgroup accepted has %s, %v", got, err)
	}
	counts, err := control.Counts()
	if want := (Counts{Assigned: 2, Chosen: 1, NoECN: 1}); err != nil || counts != want {
		t.Errorf("counted %+v, %v; want %+v", counts, err, want)
	}
	outside, _ := p.connect(t, "", "")
	if controlName(t, outside) == control.Name() {
		t.Error("a connection of another cgroup has the control too")
	}
}

// Ending one cgroup's attachment keeps that of the others.
func TestAttachUntilClosed(t *testing.T) {
	control := install(t, Options{})
	p := newPath(t)
	address := p.listen(t, control.Name()).Addr().String()
	for i, until := range []bool{true, false} {
		group, send, answer := inCgroup(t)
		attached, err := control.AttachUntil(group.Path)
		if err != nil {
			t.Fatal(err)
		}
		if !until {
			if err := attached.Close(); err != nil {
				t.Fatal(err)
			}
		}
		send(task{Namespace: p.client.Name, Address: address})
		if got := answer(); (got == control.Name()) != until {
			t.Errorf("%d: a connection of the cgroup has %s", i, got)
		}
		if until {
			t.Cleanup(func() { _ = attached.Close() })
		}
	}
}

func TestWithoutECNItIsReno(t *testing.T) {
	installed := install(t, Options{})
	p := newPath(t)
	if err := sysctl.Set(p.server, "net.ipv4.tcp_ecn", "0"); err != nil {
		t.Fatal(err)
	}
	if err := p.wire.Mark(1, 1); err != nil {
		t.Fatal(err)
	}
	sender, receiver := p.connect(t, installed.Name(), "")
	if got := controlName(t, sender); got != "reno" {
		t.Errorf("the connection has %s", got)
	}
	transfer(t, testutil.Rand(t), sender, receiver, 64<<10)
	segments, err := p.wire.Segments()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range segments {
		if s.Sent && s.Octets > 0 && s.Capable {
			t.Fatal("data went out as ECN-capable to a peer that does not take part")
		}
	}
}

func TestOtherToolsSeeTheControl(t *testing.T) {
	ss := testutil.Command(t, "ss")
	installed := install(t, Options{})
	p := newPath(t)
	sender, receiver := p.connect(t, installed.Name(), installed.Name())
	for _, conn := range []net.Conn{sender, receiver} {
		if got := controlName(t, conn); got != installed.Name() {
			t.Errorf("one end has %s", got)
		}
	}
	var output []byte
	err := p.client.Do(func() (err error) {
		output, err = exec.Command(ss, "-tin").Output()
		return err
	})
	if err != nil || !strings.Contains(string(output), " "+installed.Name()+" ") {
		t.Errorf("ss -tin does not name %s: %v\n%s", installed.Name(), err, output)
	}
}
