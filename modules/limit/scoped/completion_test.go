// SPDX-License-Identifier: Apache-2.0

package scoped

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"

	"weir/kernel/testutil"
)

// Data written before the end of a command is limited until it is sent.
func TestRunWaitsForUnsentData(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Command(t, "bash")
	here, there := link(t)
	var listener net.Listener
	err := there.Do(func() (err error) {
		narrow := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
			_ = c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 2048) })
			return err
		}}
		listener, err = narrow.Listen(t.Context(), "tcp", "10.9.0.2:0")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	const octets = 12000 // more than the window, and less than a socket keeps
	begin, got := make(chan struct{}), make(chan int64)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			got <- 0
			return
		}
		<-begin
		n, _ := io.Copy(io.Discard, conn)
		_ = conn.Close()
		got <- n
	}()
	var once sync.Once
	said := ""
	script := fmt.Sprintf("exec 3>/dev/tcp/%s/%d; head -c %d /dev/zero >&3", "10.9.0.2", listener.Addr().(*net.TCPAddr).Port, octets)
	err = here.Do(func() error {
		_, err := Run(t.Context(), Command{Args: []string{"bash", "-c", script}, Limits: capped(), Notify: besidesKeeping(func(what string) {
			said = what
			once.Do(func() { close(begin) })
		})})
		return err
	})
	once.Do(func() { close(begin) })
	if n := <-got; err != nil || n != octets || !strings.Contains(said, "1 connection still has data to send, and stays limited") {
		t.Errorf("%d of %d octets came; said %q, %v", n, octets, said, err)
	}
}

// Run does not wait for a connection with an unacknowledged FIN and no data.
func TestRunDoesNotWaitForTheEndOfADownload(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Command(t, "bash")
	testutil.Command(t, "ip")
	here, there := link(t)
	var listener net.Listener
	err := there.Do(func() (err error) {
		listener, err = net.Listen("tcp", "10.9.0.2:0")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, "all\n")
		_, _ = io.Copy(io.Discard, conn)
		_ = conn.Close()
	}()
	var said []string
	script := fmt.Sprintf("exec 3<>/dev/tcp/10.9.0.2/%d; read x <&3; ip link set eth0 down", listener.Addr().(*net.TCPAddr).Port)
	err = here.Do(func() error {
		_, err := Run(t.Context(), Command{Args: []string{"bash", "-c", script}, Limits: capped(), Notify: func(what string) { said = append(said, what) }})
		return err
	})
	if left := strings.Join(said, "\n"); err != nil || strings.Contains(left, "data to send") {
		t.Errorf("said %q, %v", left, err)
	}
}

// The message about open sockets matches the treatment.
func TestReportOfOpenSockets(t *testing.T) {
	for _, test := range []struct {
		command Command
		open    int
		want    string
	}{
		{Command{Limits: capped()}, 1, "1 open socket of process 7 stays in its former cgroup; only new sockets are limited"},
		{Command{Class: "lbe"}, 2, "2 open sockets of process 7 stay in its former cgroup; only new sockets are in class lbe"},
		{Command{Class: "lbe", Limits: capped()}, 2, "2 open sockets of process 7 stay in its former cgroup; only new sockets are limited and in class lbe"},
	} {
		said := ""
		test.command.PID, test.command.Notify = 7, func(what string) { said = what }
		test.command.reportSockets(test.open)
		if said != test.want {
			t.Errorf("said %q, want %q", said, test.want)
		}
	}
}

// The message about remaining processes matches their treatment.
func TestReportOfRemainingProcesses(t *testing.T) {
	for _, test := range []struct {
		command Command
		left    int
		want    string
	}{
		{Command{Limits: capped()}, 1, "a has ended; 1 descendant still runs, and stays limited"},
		{Command{Class: "lbe"}, 2, "a has ended; 2 descendants still run, and stay in class lbe"},
		{Command{Class: "lbe", Limits: capped()}, 2, "a has ended; 2 descendants still run, and stay limited and in class lbe"},
	} {
		said := ""
		test.command.Args, test.command.Notify = []string{"a"}, func(what string) { said = what }
		test.command.reportRemaining(test.left, "descendant still runs", "descendants still run")
		if said != test.want {
			t.Errorf("said %q, want %q", said, test.want)
		}
	}
}
