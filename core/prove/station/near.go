// SPDX-License-Identifier: Apache-2.0

package station

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"weir/kernel/congestion"
)

// NearPart is the name under which main and TestMain register [Near] with child.Main.
const NearPart = "prove-near"

// Task is the first input of a near station; commands follow.
type Task struct {
	Flow    Flow           `json:"flow"`
	Target  netip.AddrPort `json:"target"`
	Session string         `json:"session"`
	User    *uint32        `json:"user,omitempty"` // user of the process
	Mark    uint32         `json:"mark,omitempty"` // of the sockets
	DSCP    uint8          `json:"dscp,omitempty"` // of datagrams
	Late    bool           `json:"late,omitempty"` // User and Mark apply after the sockets are open, instead of before
}

// connectTime is the maximum duration of a handshake: the far station has reported that it is
// ready.
const connectTime = 5 * time.Second

// Near is the process in the scope: it connects to the far station and executes commands.
func Near(in io.Reader, out io.Writer) error {
	commands := json.NewDecoder(in)
	var task Task
	if err := commands.Decode(&task); err != nil {
		return fmt.Errorf("read task: %w", err)
	}
	c, err := near(task)
	if err != nil {
		return json.NewEncoder(out).Encode(Event{Event: "problem", Problem: err.Error()})
	}
	return operate(commands, out, c)
}

// near opens the sockets. Marking requires privilege: the process then changes to the user
// afterwards, and its sockets get that owner before they connect.
func near(task Task) (carrier, error) {
	first := task.User != nil && !task.Late && task.Mark == 0
	if first {
		if err := become(int(*task.User)); err != nil {
			return nil, err
		}
	}
	open := nearTCP
	if task.Flow.Protocol == Short {
		if first || task.User == nil || task.Mark != 0 { // the user owns marked sockets
			return &shorts{task: task}, nil
		}
		return &shorts{task: task}, become(int(*task.User))
	}
	if task.Flow.datagrams() {
		open = nearUDP
	}
	c, err := open(task)
	if err == nil && task.User != nil && !first {
		err = become(int(*task.User))
	}
	return c, err
}

// become changes the user of this process for good. It sets the death signal again, which the
// change clears.
func become(user int) error {
	if err := errors.Join(syscall.Setgroups(nil), syscall.Setresgid(user, user, user), syscall.Setresuid(user, user, user)); err != nil {
		return fmt.Errorf("become user %d: %w", user, err)
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("become user %d: %w", user, err)
	}
	return nil
}

func nearTCP(task Task) (carrier, error) {
	var conns []*net.TCPConn
	for range task.Flow.Connections {
		c, err := dial(task)
		if err == nil {
			conns = append(conns, c)
			err = json.NewEncoder(c).Encode(hello{Format: format, Kind: kindData, Session: task.Session})
		}
		if err != nil {
			closeAll(conns)
			return nil, fmt.Errorf("connect to %s: %w", task.Target, err)
		}
	}
	return newStreams(task.Flow, conns), nil
}

// open connects a socket to the far station. The socket is marked and gets its owner before that,
// or is marked afterwards.
func (t Task) open(network string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), connectTime)
	defer cancel()
	dialer := net.Dialer{KeepAlive: -1, Control: func(_, _ string, raw syscall.RawConn) error {
		if t.Late || t.Mark == 0 {
			return nil
		}
		err := mark(raw, t.Mark)
		if err == nil && t.User != nil {
			err = give(raw, int(*t.User))
		}
		return err
	}}
	c, err := dialer.DialContext(ctx, network, t.Target.String())
	if err != nil || !t.Late || t.Mark == 0 {
		return c, err
	}
	raw, err := c.(syscall.Conn).SyscallConn()
	if err == nil {
		err = mark(raw, t.Mark)
	}
	if err != nil {
		_ = c.Close()
	}
	return c, err
}

// mark sets the mark of sent packets (SO_MARK).
func mark(raw syscall.RawConn, number uint32) (err error) {
	outer := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, int(number)) })
	if err = errors.Join(outer, err); err != nil {
		return fmt.Errorf("mark socket with %#x: %w", number, err)
	}
	return nil
}

func dial(task Task) (*net.TCPConn, error) {
	c, err := task.open("tcp")
	if err != nil {
		return nil, err
	}
	conn := c.(*net.TCPConn)
	if err := choose(conn, task.Flow.Congestion); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

func closeAll(conns []*net.TCPConn) {
	for _, c := range conns {
		_ = c.Close()
	}
}

// choose sets the congestion control of a connection.
func choose(c *net.TCPConn, name string) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return fmt.Errorf("choose congestion control: %w", err)
	}
	outer := raw.Control(func(fd uintptr) { err = congestion.Set(int(fd), name) })
	return errors.Join(outer, err)
}

// nearUDP repeats its announcement until the far station answers, because datagrams may be lost.
func nearUDP(task Task) (carrier, error) {
	opened, err := task.open("udp")
	if err != nil {
		return nil, fmt.Errorf("open socket to %s: %w", task.Target, err)
	}
	c := opened.(*net.UDPConn)
	if err := errors.Join(c.SetReadBuffer(bufferOf(task.Flow)), sendAs(c, task.DSCP)); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("open socket to %s: %w", task.Target, err)
	}
	answer, announcement := make([]byte, 64), greeting+task.Session
	for deadline := time.Now().Add(connectTime); ; {
		if time.Now().After(deadline) {
			_ = c.Close()
			return nil, fmt.Errorf("reach %s by UDP: no answer within %s", task.Target, connectTime)
		}
		_, _ = c.Write([]byte(announcement)) // a rejected announcement is repeated
		_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		n, err := c.Read(answer)
		if nonce, is := strings.CutPrefix(string(answer[:n]), challenge); err == nil && is {
			announcement = greeting + task.Session + " " + nonce
		}
		if err == nil && string(answer[:n]) == greeting {
			break
		}
	}
	_ = c.SetReadDeadline(time.Time{})
	d := &datagrams{flow: task.Flow, header: headersTo(task.Target), shut: func() { _ = c.Close() },
		drops: func() uint64 { return socketDrops(c) },
		write: func(b []byte) error { _, err := c.Write(b); return err }}
	if task.Flow.Protocol == Probe {
		d.probes = &probes{}
	}
	if task.Flow.Protocol == QUIC {
		d.acked = newAcked()
	}
	go func() {
		buffer := make([]byte, 2048)
		for {
			n, err := c.Read(buffer)
			if err == nil {
				d.arrived(buffer[:n], nil)
			} else if !errors.Is(err, syscall.ECONNREFUSED) {
				return
			}
		}
	}()
	return d, nil
}

// socketDrops returns the number of datagrams dropped because the receive buffer was full
// (SO_MEMINFO, SK_MEMINFO_DROPS in linux/sock_diag.h).
func socketDrops(c *net.UDPConn) uint64 {
	const drops = 8
	var info [9]uint32
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		length := uint32(unsafe.Sizeof(info))
		_, _, _ = syscall.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_MEMINFO, uintptr(unsafe.Pointer(&info)),
			uintptr(unsafe.Pointer(&length)), 0)
	})
	return uint64(info[drops])
}

// FarPart is the name under which main and TestMain register [Far] with child.Main.
const FarPart = "prove-far"

// FarTask configures an own far station.
type FarTask struct {
	Listen string  `json:"listen"` // address and port; a port of 0 is any
	Token  string  `json:"token"`
	User   *uint32 `json:"user,omitempty"` // owner of its sockets
}

// Far serves far stations in its own process until its input ends. It reports its address.
func Far(in io.Reader, out io.Writer) error {
	commands := json.NewDecoder(in)
	var task FarTask
	if err := commands.Decode(&task); err != nil {
		return fmt.Errorf("read task: %w", err)
	}
	server, err := Listen(task.Listen, task.Token)
	if err != nil {
		return err
	}
	if task.User != nil {
		if err := server.belongTo(int(*task.User)); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintln(out, server.Addr()); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	err = server.Serve(ctx)
	if errors.Is(err, os.ErrClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
