// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/kernel/testutil"
)

// volleys is the length of the stream, or that of WEIR_VOLLEYS.
func volleys(t *testing.T) int {
	t.Helper()
	text := os.Getenv("WEIR_VOLLEYS")
	if text == "" {
		return 300
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// realTable returns the IPv4 prefixes of WEIR_ROUTES, a gzipped file with a prefix per line; nil
// without it.
func realTable(t *testing.T) (all []netip.Prefix) {
	t.Helper()
	name := os.Getenv("WEIR_ROUTES")
	if name == "" {
		return nil
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(z); lines.Scan(); {
		to, err := netip.ParsePrefix(lines.Text())
		if err != nil {
			t.Fatal(err)
		}
		if to.Addr().Is4() {
			all = append(all, to)
		}
	}
	return all
}

// preload adds a real table to the router's routes, with alternating next hops.
func preload(t *testing.T, r *router) {
	t.Helper()
	routes := realTable(t)
	if routes == nil {
		return
	}
	var batch strings.Builder
	for i, to := range routes {
		fmt.Fprintf(&batch, "route append %s via 10.2.0.%d\n", to, 2+i%2)
	}
	add := exec.Command("ip", "-n", r.Router.Name, "-batch", "-")
	add.Stdin = strings.NewReader(batch.String())
	if out, err := add.CombinedOutput(); err != nil {
		t.Fatalf("ip -batch: %v\n%s", err, out)
	}
	t.Logf("%d routes more", len(routes))
}

// While hundreds of routes change, nest and disappear, no packet is lost, and each uses an old or a
// new next hop.
func TestNoPacketIsLostWhileRoutesChange(t *testing.T) {
	r := newRouter(t, nil)
	preload(t, r)
	r.follow()
	r.becomes("100.64.0.9", 2)
	var dests []netip.Addr
	for i := range 64 {
		dests = append(dests, netip.AddrFrom4([4]byte{100, 64, byte(i), byte(9 + 91*(i%2))}))
	}
	var updates atomic.Int64
	done, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(failed)
		for round := 0; ; round++ {
			select {
			case <-done:
				return
			default:
			}
			var batch strings.Builder
			for i := range 64 {
				switch {
				case round%2 == 0:
					fmt.Fprintf(&batch, "route replace 100.64.%d.0/24 via 10.2.0.3\nroute replace 100.64.%d.8/29 via 10.2.0.2\n", i, i)
				default:
					fmt.Fprintf(&batch, "route del 100.64.%d.0/24\nroute del 100.64.%d.8/29\n", i, i)
				}
			}
			change := exec.Command("ip", "-n", r.Router.Name, "-batch", "-")
			change.Stdin = strings.NewReader(batch.String())
			if out, err := change.CombinedOutput(); err != nil {
				failed <- fmt.Errorf("%w: %s", err, out)
				return
			}
			updates.Add(128)
		}
	}()
	begin := time.Now()
	hops := r.Stream(t, dests, volleys(t))
	took := time.Since(begin)
	close(done)
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	for octet, n := range hops {
		if octet != 2 && octet != 3 {
			t.Errorf("%d packets went to a neighbour %#x", n, octet)
		}
	}
	if len(hops) == 0 {
		t.Error("nothing came out")
	}
	// Both go by the fast path and to the final next hop.
	testutil.Eventually(t, patience*10, "the last change", func() bool { return r.verify().Holds() })
	report, err := r.plane.Report(r.state)
	if err != nil || report.Host[0].Count == 0 {
		t.Errorf("nothing was forwarded by the fast path: %+v, %v", report, err)
	}
	t.Logf("%d changes of routes in %s; packets by next hop: %v; by the fast path %d", updates.Load(), took, hops, report.Host[0].Count)
}
