// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
	"weir/lab/traffic"
)

// path is two hosts joined by a veth pair, with their addresses by family.
type path struct{ from, to map[int]traffic.Endpoint }

func newPath(t *testing.T) path {
	t.Helper()
	left, right := testutil.Namespace(t, "left"), testutil.Namespace(t, "right")
	a, b := dial(t, left), dial(t, right)
	must(t, a.AddVeth("a", right, "b", 0))
	p := path{from: map[int]traffic.Endpoint{}, to: map[int]traffic.Endpoint{}}
	for _, end := range []struct {
		ns        *netns.Namespace
		conn      *rtnl.Conn
		device    string
		endpoints map[int]traffic.Endpoint
		v4, v6    string
	}{{left, a, "a", p.from, "10.0.0.1/24", "fd00::1/64"}, {right, b, "b", p.to, "10.0.0.2/24", "fd00::2/64"}} {
		for family, text := range map[int]string{4: end.v4, 6: end.v6} {
			prefix := netip.MustParsePrefix(text)
			must(t, end.conn.AddAddress(end.device, prefix))
			end.endpoints[family] = traffic.Endpoint{Namespace: end.ns, Address: prefix.Addr()}
		}
		must(t, end.conn.SetUp(end.device))
	}
	awaitLink(t, a, "a")
	awaitLink(t, b, "b")
	return p
}

// awaitLink waits until the kernel has noticed that both ends are up; before that it drops packets.
func awaitLink(t *testing.T, conn *rtnl.Conn, device string) {
	t.Helper()
	testutil.Eventually(t, 5*time.Second, device+" running", func() bool {
		d, err := conn.Device(device)
		return err == nil && d.Running
	})
}

func dial(t *testing.T, ns *netns.Namespace) *rtnl.Conn {
	t.Helper()
	conn, err := rtnl.Open(ns)
	must(t, err)
	t.Cleanup(conn.Close)
	return conn
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// inside runs a program in ns and returns its output.
func inside(ns *netns.Namespace, name string, args ...string) (text string, err error) {
	err = ns.Do(func() error {
		out, err := exec.Command(name, args...).CombinedOutput()
		text = string(out)
		return err
	})
	return text, err
}

// run runs a flow that must succeed, and checks that it leaves no goroutine and no descriptor
// behind.
func (p path) run(t *testing.T, family int, f traffic.Flow) traffic.Result {
	t.Helper()
	g := New()
	must(t, g.Check(f))
	leaks := leakCheck(t)
	var result traffic.Result
	for range 5 { // neighbour requests repeat each second, and these flows are shorter
		var err error
		result, err = g.Run(context.Background(), f, p.from[family], p.to[family])
		must(t, err)
		leaks()
		if !strings.Contains(result.Failed, "no handshake within") {
			break
		}
	}
	if result.Failed != "" {
		t.Fatalf("the flow failed: %s", result.Failed)
	}
	if len(result.Streams) != f.Streams {
		t.Fatalf("%d streams in the result of %d", len(result.Streams), f.Streams)
	}
	return result
}

func leakCheck(t *testing.T) func() {
	t.Helper()
	goroutines, descriptors := runtime.NumGoroutine(), openDescriptors(t)
	return func() {
		t.Helper()
		testutil.Eventually(t, 5*time.Second, "the end of every goroutine and descriptor", func() bool {
			return runtime.NumGoroutine() <= goroutines && openDescriptors(t) <= descriptors
		})
	}
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(entries)
}
