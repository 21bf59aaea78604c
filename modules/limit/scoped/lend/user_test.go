// SPDX-License-Identifier: Apache-2.0

package lend

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"weir/internal/child"
	"weir/kernel/cgroup"
	"weir/kernel/sockets/rescuer"
	"weir/modules/limit/scoped"
)

func TestMain(m *testing.M) {
	child.Main(child.Parts{"user": userPart, rescuer.Part: rescuer.Rescue})
	os.Exit(m.Run())
}

// Unprivileged users.
const alice, bob = 61701, 61702

// deed is an instruction to a user process: a request on a new connection, which stays open.
type deed struct {
	Of     string         // see kinds
	PID    int            // for kinds that need one
	Ask    scoped.Request // an empty Format means FormatLend
	Done   bool           // request the counters on the last connection, and close it
	Close  bool           // close the last connection
	Silent int            // number of connections to open without a request
	Storm  int            // number of requests for ending or moving processes
	Home   string         // for a storm: the cgroup that the user is in
}

// result is the result of a deed.
type result struct {
	Answer scoped.Response
	Error  string
	PID    int    // of the requested process
	Group  string // its final cgroup
	Ended  int    // silent connections that were ended
}

// user is a process of an unprivileged user, in a cgroup.
type user struct {
	*testing.T
	process *child.Process
	ask     *json.Encoder
	answers *json.Decoder
}

func newUser(t *testing.T, uid int, group cgroup.Cgroup, socket string) *user {
	t.Helper()
	process, err := child.Start(t.Context(), "user", os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Kill(); <-process.Done() })
	if err := group.Add(process.PID()); err != nil {
		t.Fatal(err)
	}
	u := &user{t, process, json.NewEncoder(process.In), json.NewDecoder(process.Out)}
	if err := u.ask.Encode(map[string]any{"UID": uid, "Socket": socket}); err != nil {
		t.Fatal(err)
	}
	return u
}

func (u *user) do(d deed) (got result) {
	u.Helper()
	if d.Ask.Format == "" {
		d.Ask.Format = scoped.FormatLend
	}
	if err := u.ask.Encode(d); err != nil {
		u.Fatal(err)
	}
	if err := u.answers.Decode(&got); err != nil {
		u.Fatal(err)
	}
	return got
}

// borrows requests the class lbe for a process of the user, which must be granted.
func (u *user) borrows() result {
	u.Helper()
	got := u.do(deed{Of: "own", Ask: scoped.Request{Class: "lbe"}})
	if got.Error != "" || got.Answer.Rejection != nil {
		u.Fatalf("rejected: %s, %+v", got.Error, got.Answer.Rejection)
	}
	return got
}

// asker is the user's side.
type asker struct {
	socket string
	last   []*net.UnixConn
}

// userPart drops all privileges and executes deeds.
func userPart(in io.Reader, out io.Writer) error {
	orders, answers := json.NewDecoder(in), json.NewEncoder(out)
	var who struct {
		UID    int
		Socket string
	}
	if err := orders.Decode(&who); err != nil {
		return err
	}
	for _, err := range []error{syscall.Setgroups(nil), syscall.Setgid(who.UID), syscall.Setuid(who.UID)} {
		if err != nil {
			return err
		}
	}
	a := &asker{socket: who.Socket}
	for {
		var d deed
		if err := orders.Decode(&d); err != nil {
			return nil
		}
		got, err := a.do(d)
		if err != nil {
			got.Error = err.Error()
		}
		if err := answers.Encode(got); err != nil {
			return err
		}
	}
}

func (a *asker) do(d deed) (got result, err error) {
	switch {
	case d.Done, d.Close:
		conn := a.last[len(a.last)-1]
		a.last = a.last[:len(a.last)-1]
		defer func() { _ = conn.Close() }()
		if d.Done {
			_, _ = conn.Write([]byte("{}"))
			return got, read(conn, &got.Answer)
		}
		return got, nil
	case d.Silent > 0:
		return a.silent(d.Silent)
	case d.Storm > 0:
		return result{}, a.storm(d.Storm, d.Home)
	}
	fds, pid, err := kinds[d.Of](d.PID)
	if err != nil {
		return got, err
	}
	got, err = a.askFor(d, fds)
	got.PID = pid
	if group, failed := cgroup.Of(pid); failed == nil {
		got.Group = group.Path
	}
	return got, err
}

// askFor sends a request on a new connection with descriptors, and closes them.
func (a *asker) askFor(d deed, fds []int) (got result, err error) {
	defer func() {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}()
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: a.socket, Net: "unixpacket"})
	if err != nil {
		return got, err
	}
	a.last = append(a.last, conn)
	text, err := json.Marshal(d.Ask)
	if err != nil {
		return got, err
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	if _, _, err := conn.WriteMsgUnix(text, rights, nil); err != nil && !errors.Is(err, unix.EPIPE) {
		return got, err
	}
	err = read(conn, &got.Answer)
	return got, err
}

func read(conn *net.UnixConn, into *scoped.Response) error {
	text := make([]byte, scoped.MaxMessage)
	n, err := conn.Read(text)
	if errors.Is(err, unix.ECONNRESET) {
		n, err = conn.Read(text)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(text[:n], into)
}

// silent opens connections without a request, and waits until the lender has closed all.
func (a *asker) silent(n int) (got result, err error) {
	var all []*net.UnixConn
	for range n {
		conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: a.socket, Net: "unixpacket"})
		if err != nil {
			return got, err
		}
		all = append(all, conn)
	}
	for _, conn := range all {
		_, _ = io.Copy(io.Discard, conn) // the rejection, then EOF
		_ = conn.Close()
		got.Ended++
	}
	return got, nil
}

// kinds are the descriptors of a request, and the processes that they refer to.
var kinds = map[string]func(pid int) (fds []int, of int, err error){
	"own":  func(int) ([]int, int, error) { return started("read x") },
	"none": func(int) ([]int, int, error) { return nil, 0, nil },
	"several": func(int) ([]int, int, error) {
		fds, pid, err := started("read x")
		if err != nil {
			return nil, 0, err
		}
		for range 20 {
			more, err := unix.Dup(fds[0])
			if err != nil {
				return nil, 0, err
			}
			fds = append(fds, more)
		}
		return fds, pid, nil
	},
	"file":    func(int) ([]int, int, error) { return opened("/dev/null", 0) },
	"folder":  func(pid int) ([]int, int, error) { return opened(fmt.Sprintf("/proc/%d", pid), pid) },
	"process": func(pid int) ([]int, int, error) { return pidfd(pid) },
	"itself":  func(int) ([]int, int, error) { return pidfd(os.Getpid()) }, // with several threads
	"namespace": func(int) ([]int, int, error) {
		return started("exec unshare --user --net sh -c 'echo; read x'")
	},
	"stopped": func(int) ([]int, int, error) { return started("echo; kill -STOP $$; read x") },
	"traced": func(int) ([]int, int, error) {
		fds, pid, err := started("echo; read x")
		if err == nil {
			err = unix.PtraceSeize(pid)
		}
		return fds, pid, err
	},
	"ended": func(int) ([]int, int, error) {
		fds, pid, err := started("exit")
		if err == nil {
			_, err = unix.Wait4(pid, nil, 0, nil)
		}
		return fds, pid, err
	},
	"zombie": func(int) ([]int, int, error) {
		fds, pid, err := started("exit")
		if err == nil {
			err = unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		}
		return fds, pid, err
	},
}

// started starts a shell and waits for the output of its echo, if any.
func started(script string) ([]int, int, error) {
	cmd := exec.Command("sh", "-c", script)
	if _, err := cmd.StdinPipe(); err != nil {
		return nil, 0, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, 0, err
	}
	if err := cmd.Start(); err != nil {
		return nil, 0, err
	}
	if strings.Contains(script, "echo") {
		if _, err := out.Read(make([]byte, 1)); err != nil {
			return nil, 0, fmt.Errorf("%s: %w", script, err)
		}
	}
	return pidfd(cmd.Process.Pid)
}

func pidfd(pid int) ([]int, int, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	return []int{fd}, pid, err
}

func opened(path string, pid int) ([]int, int, error) {
	fd, err := unix.Open(path, unix.O_RDONLY, 0)
	return []int{fd}, pid, err
}

// stand is a lender and the cgroup of its users.
type stand struct {
	*testing.T
	lender *Lender
	home   cgroup.Cgroup
}
