// SPDX-License-Identifier: Apache-2.0

package live_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/kernel/netns"
	"weir/kernel/routing"
	"weir/kernel/testutil"
	"weir/modules/offload/live"
	"weir/modules/offload/state"
)

// batch runs lines of ip(8) in a namespace.
func batch(ctx context.Context, ns *netns.Namespace, lines string) error {
	command := exec.CommandContext(ctx, "ip", "-n", ns.Name, "-batch", "-")
	command.Stdin = strings.NewReader(lines)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("ip -batch: %w: %s", err, out)
	}
	return nil
}

// canonical returns a state without its group numbers.
func canonical(t *testing.T, s *state.State) map[string]string {
	t.Helper()
	all := map[string]string{}
	for number, table := range s.Tables {
		for to, e := range table {
			all[fmt.Sprint(number, to)] = fmt.Sprint(e.Best.Type, e.Best.Metric, s.Words(e.Best.Group))
		}
	}
	for at, n := range s.Neighbors {
		all[fmt.Sprint(at)] = fmt.Sprint(n.MAC, n.Valid)
	}
	for a := range s.Addresses {
		all[fmt.Sprint(a)] = "own"
	}
	return all
}

// A follower that reads too late receives ENOBUFS, reports doubt, and knows everything again after
// a resync.
func TestLostEventsAreMadeGood(t *testing.T) {
	testutil.Command(t, "ip")
	ns := testutil.Namespace(t, "one")
	for _, line := range []string{"link set dev lo up", "link add d0 type veth peer name d1", "link set dev d0 up", "link set dev d1 up", "addr add 192.0.2.1/24 dev d0"} {
		ip(t, ns.Name, line)
	}
	f, err := live.Follow(ns)
	must(t, err)
	defer f.Close()
	lost := false
	for n := 1 << 17; !lost; n *= 2 { // 32 MiB hold some 70,000
		if n > 1<<20 {
			t.Fatal("a million events were all kept")
		}
		var lines strings.Builder
		for i := range n {
			fmt.Fprintf(&lines, "route replace 100.64.0.%d/32 via 192.0.2.%d\n", i%200, 2+i%211)
		}
		must(t, batch(t.Context(), ns, lines.String()))
		for {
			c, err := f.Next(t.Context(), 10*time.Millisecond)
			must(t, err)
			if c.Anew && c.Uncertain {
				lost = true
			}
			if !c.Anew && len(c.Routes) == 0 {
				break // end of the queue
			}
		}
	}
	fresh, err := live.Read(ns)
	must(t, err)
	if cmp.Equal(canonical(t, fresh), canonical(t, f.State)) {
		t.Log("though events were lost, nothing is missing")
	}
	must(t, f.Again())
	if diff := cmp.Diff(canonical(t, fresh), canonical(t, f.State)); diff != "" {
		t.Errorf("after a resync (-kernel +state):\n%s", diff)
	}
	ip(t, ns.Name, "route add 203.0.113.0/24 via 192.0.2.2")
	testutil.Eventually(t, 20*time.Second, "a change after the resync", func() bool {
		c, err := f.Next(t.Context(), 10*time.Millisecond)
		must(t, err)
		return len(c.Routes) > 0
	})
}

// An interrupted dump is repeated, and its first results are discarded.
func TestInterruptedDumpsAreBegunAgain(t *testing.T) {
	testutil.Command(t, "ip")
	ns := testutil.Namespace(t, "one")
	ip(t, ns.Name, "link set dev lo up")
	var lines strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&lines, "addr add 10.9.%d.%d/32 dev lo\n", i>>8, i&255)
	}
	must(t, batch(t.Context(), ns, lines.String()))
	before, err := live.Read(ns)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	changing := make(chan struct{})
	go func() {
		defer close(changing)
		flip := strings.Repeat("addr add 10.8.0.1/32 dev lo\naddr del 10.8.0.1/32 dev lo\n", 500)
		for ctx.Err() == nil {
			_ = batch(ctx, ns, flip)
		}
	}()
	restarts := 0
	testutil.Eventually(t, time.Minute, "a dump that was interrupted", func() bool {
		addresses, begun := 0, 0
		err := routing.Dump(ns, routing.Everything, func(e *routing.Event) {
			switch e.Kind {
			case routing.Restart:
				restarts++
				begun++
				addresses = 0
			case routing.AddressEvent:
				if e.Address.Local.Is4() {
					addresses++
				}
			}
		})
		if err != nil && !strings.Contains(err.Error(), "it changed during each of") {
			t.Fatal(err)
		}
		if err == nil && (addresses < 4001 || addresses > 4002) {
			t.Errorf("a dump that ended whole, begun again %d times, has %d addresses, want 4001 or 4002", begun, addresses)
		}
		return restarts > 0
	})
	cancel()
	<-changing
	_ = exec.Command("ip", "-n", ns.Name, "addr", "del", "10.8.0.1/32", "dev", "lo").Run()
	after, err := live.Read(ns)
	must(t, err)
	if diff := cmp.Diff(canonical(t, before), canonical(t, after)); diff != "" {
		t.Errorf("when all is quiet again (-before +after):\n%s", diff)
	}
}
