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

// process is a pidfd, which identifies one process even if its PID is reused.
type process struct{ *os.File }

const tryAgain = "start the command again"

// ended returns the error for a process that no longer exists.
func ended(cause error) error {
	if cause == nil {
		return fault.New(fault.Usage, tryAgain, "the process has ended")
	}
	return fault.New(fault.Usage, tryAgain, "the process has ended: %w", cause)
}

// credentials returns the credentials of the peer.
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

// receive reads the request and its pidfd. With several descriptors the kernel sets MSG_CTRUNC.
func (s *session) receive() (a scoped.Request, p process, err error) {
	_ = s.conn.SetReadDeadline(time.Now().Add(messageTimeout))
	text, control := make([]byte, scoped.MaxMessage), make([]byte, unix.CmsgSpace(4))
	n, controlled, flags, _, err := s.conn.ReadMsgUnix(text, control)
	if err != nil {
		return a, p, fmt.Errorf("read request: %w", err)
	}
	p = descriptor(control[:controlled])
	switch {
	case p.File == nil || flags&unix.MSG_CTRUNC != 0:
		err = fault.New(fault.Usage, "send exactly one pidfd", "the request has no process descriptor, or several")
	case flags&unix.MSG_TRUNC != 0:
		err = fault.New(fault.Usage, "shorten the request", "the request exceeds %d bytes", scoped.MaxMessage)
	case json.Unmarshal(text[:n], &a) != nil || a.Format != scoped.FormatLend:
		err = fault.New(fault.Usage, "use the lender's version of weir", "the request is not in the format "+scoped.FormatLend)
	}
	if err != nil && p.File != nil {
		_ = p.Close()
	}
	return a, p, err
}

// descriptor returns the first descriptor of a control message.
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

// number returns the PID while the process exists.
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
		return 0, fault.New(fault.Usage, tryAgain, "the process has ended, or is in a PID namespace that is not visible to the lender")
	}
	return pid, nil
}

// field returns a value of a file with lines of the form "Name:   value".
func field(text []byte, name string) string {
	for line := range bytes.Lines(text) {
		if key, value, _ := bytes.Cut(line, []byte{':'}); string(key) == name {
			return string(bytes.TrimSpace(value))
		}
	}
	return ""
}

// cgroup returns the cgroup of the process.
func (p process) cgroup() (group cgroup.Cgroup, err error) {
	pid, err := p.number()
	if err != nil {
		return group, err
	}
	if group, err = cgroup.Of(pid); err != nil {
		return group, err
	}
	if now, err := p.number(); err != nil || now != pid {
		return group, ended(err)
	}
	return group, scoped.CanHold(group)
}

// move moves the user's process from one cgroup into another one below it.
func (p process) move(user uint32, from, to cgroup.Cgroup) error {
	// Checked before the stop too, so that no other user's process is stopped.
	pid, err := p.number()
	if err == nil {
		err = belongs(pid, user)
	}
	if err != nil {
		return err
	}
	return p.whileStopped(func(pid int) error {
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

// belongs returns an error for a process that may not be moved: another user's by any of its ids,
// with several threads, or in another network namespace.
func belongs(pid int, user uint32) error {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return ended(err)
	}
	ids := strings.Fields(field(text, "Uid"))
	other := func(id string) bool { return id != strconv.FormatUint(uint64(user), 10) }
	if len(ids) == 0 || slices.ContainsFunc(ids, other) {
		return fault.New(fault.Permission, "request a process of your own", "the process belongs to another user")
	}
	if field(text, "Threads") != "1" {
		return fault.New(fault.Usage, "send the request before it starts threads", "the process has several threads")
	}
	own, err := os.Stat("/proc/self/ns/net")
	if err != nil {
		return fmt.Errorf("read own network namespace: %w", err)
	}
	its, err := os.Stat(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return ended(err)
	}
	if !os.SameFile(own, its) {
		return fault.New(fault.Usage, "run it as root there", "the process and the lender are in different network namespaces")
	}
	return nil
}
