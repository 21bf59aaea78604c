// SPDX-License-Identifier: Apache-2.0

package lend

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/kernel/cgroup"
	"weir/modules/limit/scoped"
)

// process is a user's descriptor of a process, which stands for that one alone however numbers are
// given anew.
type process struct{ *os.File }

const tryAgain = "start the command anew"

// ended says that there is no process any more, or never was.
func ended(why error) error {
	if why == nil {
		return fault.New(fault.Usage, tryAgain, "the process has ended")
	}
	return fault.New(fault.Usage, tryAgain, "the process has ended: %w", why)
}

// credentials are those of who has connected.
func credentials(conn *net.UnixConn) (user *unix.Ucred, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	if failed := raw.Control(func(fd uintptr) { user, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); failed != nil {
		return nil, failed
	}
	return user, err
}

// receive reads what is asked for, and of which process. Of several descriptors the kernel keeps
// all but the first.
func (s *session) receive() (a scoped.Ask, p process, err error) {
	_ = s.conn.SetReadDeadline(time.Now().Add(askTime))
	text, control := make([]byte, scoped.MaxMessage), make([]byte, unix.CmsgSpace(4))
	n, controlled, flags, _, err := s.conn.ReadMsgUnix(text, control)
	if err != nil {
		return a, p, fmt.Errorf("read what is asked for: %w", err)
	}
	p = descriptor(control[:controlled])
	switch {
	case p.File == nil || flags&unix.MSG_CTRUNC != 0:
		err = fault.New(fault.Usage, "send one", "what is asked for comes with no descriptor of a process, or with several")
	case flags&unix.MSG_TRUNC != 0:
		err = fault.New(fault.Usage, "ask for less", "what is asked for is longer than %d octets", scoped.MaxMessage)
	case json.Unmarshal(text[:n], &a) != nil || a.Format != scoped.FormatLend:
		err = fault.New(fault.Usage, "use the version of weir that lends", "what is asked for is not in the format "+scoped.FormatLend)
	}
	if err != nil && p.File != nil {
		_ = p.Close()
	}
	return a, p, err
}

// descriptor is the first one of a control message.
func descriptor(control []byte) (p process) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil || len(messages) == 0 {
		return p
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) == 0 {
		return p
	}
	for _, more := range fds[1:] {
		_ = unix.Close(more)
	}
	unix.CloseOnExec(fds[0])
	return process{os.NewFile(uintptr(fds[0]), "process")}
}

// number is the process's, for as long as it lives.
func (p process) number() (int, error) {
	fd := int(p.Fd())
	if err := unix.PidfdSendSignal(fd, 0, nil, 0); err != nil && !errors.Is(err, unix.EPERM) {
		return 0, ended(err)
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return 0, fmt.Errorf("find process: %w", err)
	}
	pid, err := strconv.Atoi(field(text, "Pid"))
	if err != nil || pid <= 0 {
		return 0, fault.New(fault.Usage, tryAgain, "the process has ended, or is in a namespace that is not to be seen from here")
	}
	return pid, nil
}

// field is one of a file of lines as "Name:	value".
func field(text []byte, name string) string {
	for line := range bytes.Lines(text) {
		if key, value, _ := bytes.Cut(line, []byte{':'}); string(key) == name {
			return string(bytes.TrimSpace(value))
		}
	}
	return ""
}

// cgroup is the one that the process is in.
func (p process) cgroup() (group cgroup.Cgroup, err error) {
	pid, err := p.number()
	if err != nil {
		return group, err
	}
	if group, err = cgroup.Of(pid); err != nil {
		return group, err
	}
	if still, err := p.number(); err != nil || still != pid {
		return group, ended(err)
	}
	root, err := cgroup.Root()
	if err == nil && tooDeep(group.Path, root) {
		err = fault.New(fault.Usage, "start it in a cgroup nearer to the root", "data planes do not tell cgroups below %s, which is too deep", group.Path)
	}
	return group, err
}

// move moves the process from one cgroup to another below, if it is the user's.
func (p process) move(user uint32, from, to cgroup.Cgroup) error {
	// Nobody else's is to stand still either: what is found now is looked at again then.
	pid, err := p.number()
	if err == nil {
		err = belongs(pid, user)
	}
	if err != nil {
		return err
	}
	return p.still(func(pid int) error {
		if err := belongs(pid, user); err != nil {
			return err
		}
		now, err := cgroup.Of(pid)
		if err != nil {
			return err
		}
		if now != from {
			return fault.New(fault.Usage, tryAgain, "the process has moved to another cgroup, %s", now.Path)
		}
		if err := to.Add(pid); err != nil {
			return fault.Wrap(err, fault.Failed, "start it in a cgroup that is not of type threaded")
		}
		return nil
	})
}

// belongs says why a process is none that may be moved: it is another user's, by any of its ids,
// has several threads, or sends by devices at which nothing is marked here.
func belongs(pid int, user uint32) error {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return ended(err)
	}
	ids := strings.Fields(field(text, "Uid"))
	other := func(id string) bool { return id != strconv.FormatUint(uint64(user), 10) }
	if len(ids) == 0 || slices.ContainsFunc(ids, other) {
		return fault.New(fault.Permission, "ask for a process of one's own", "the process is another user's")
	}
	if field(text, "Threads") != "1" {
		return fault.New(fault.Usage, "ask before it makes threads", "the process has several threads")
	}
	own, err := os.Stat("/proc/self/ns/net")
	if err != nil {
		return fmt.Errorf("look at own network namespace: %w", err)
	}
	its, err := os.Stat(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return ended(err)
	}
	if !os.SameFile(own, its) {
		return fault.New(fault.Usage, "run it as root there", "the process is in another network namespace than the lender")
	}
	return nil
}
