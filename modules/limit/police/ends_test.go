// SPDX-License-Identifier: Apache-2.0

package police

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"weir/internal/child"
	"weir/kernel/cgroup"
	"weir/kernel/netns"
)

// listen listens for TCP in a namespace until the test ends.
func listen(t *testing.T, ns *netns.Namespace, address netip.Addr) (listener net.Listener) {
	t.Helper()
	err := ns.Do(func() (err error) {
		listener, err = net.Listen("tcp", netip.AddrPortFrom(address, 0).String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

// serve hands each connection to a goroutine of its own, and returns the address and port.
func serve(t *testing.T, ns *netns.Namespace, address netip.Addr, each func(net.Conn)) string {
	t.Helper()
	listener := listen(t, ns, address)
	go accept(listener, each)
	return listener.Addr().String()
}

// accept hands each connection to a goroutine of its own, until the listener is closed.
func accept(listener net.Listener, each func(net.Conn)) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			each(conn)
			_ = conn.Close()
		}()
	}
}

// talker starts the part "talk" in a cgroup, towards an echo; each of its lines says what its
// socket has.
func talker(t *testing.T, group cgroup.Cgroup, client *netns.Namespace, address string) (*child.Process, *bufio.Scanner) {
	t.Helper()
	return startTalker(t, group, task{Namespace: client.Name, Address: address})
}

func startTalker(t *testing.T, group cgroup.Cgroup, work task) (*child.Process, *bufio.Scanner) {
	t.Helper()
	process, err := child.Start(context.Background(), "talk", os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Stop(5 * time.Second) })
	if err := group.Add(process.PID()); err != nil {
		t.Fatal(err)
	}
	if err := json.NewEncoder(process.In).Encode(work); err != nil {
		t.Fatal(err)
	}
	return process, bufio.NewScanner(process.Out)
}
