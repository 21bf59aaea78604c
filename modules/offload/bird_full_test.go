// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"weir/kernel/testutil"
)

// patient is the time that a full table may take on a busy machine.
const patient = 15 * time.Minute

// session is one end of an internal BGP session over the router's port p1.
const session = `
protocol bgp upstream {
    local %s as 64512;
    neighbor %s as 64512;
    direct;
    ipv4 { import %s; export %s; };
}
`

// upstream is BIRD on another router behind p1, with the full table of WEIR_ROUTES or a generated
// one.
func upstream(t *testing.T, r *router) (b *bird, routes []netip.Prefix) {
	t.Helper()
	if routes = realTable(t); routes == nil {
		for i := range 3000 {
			routes = append(routes, netip.PrefixFrom(netip.AddrFrom4([4]byte{100, byte(128 + i>>8), byte(i), 0}), 24-i%2))
		}
	}
	var config strings.Builder
	config.WriteString("router id 10.2.0.50;\nprotocol device {}\nprotocol static table_full {\n    ipv4;\n")
	for i, to := range routes {
		fmt.Fprintf(&config, "    route %s via 10.2.0.%d;\n", to.Masked(), 2+i%2)
	}
	config.WriteString("}\n" + fmt.Sprintf(session, "10.2.0.50", "10.2.0.1", "none", "all"))
	for _, line := range []string{"addr add 10.2.0.50/24 dev r", "neigh add 10.2.0.2 lladdr 02:aa:00:00:02:02 dev r nud permanent"} {
		if out, err := exec.Command("ip", append([]string{"-n", r.Far().Name}, strings.Fields(line)...)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v\n%s", line, err, out)
		}
	}
	return startBird(t, r.Far(), config.String()), routes
}

// With a full BGP table behind the guide's two pipes, filters change under traffic without a lost
// packet. The session goes down and comes back. In the end the table agrees with the kernel.
func TestAWholeTableByBGPIsOffloaded(t *testing.T) {
	testutil.Command(t, "bird")
	testutil.Command(t, "birdc")
	r := newRouter(t, func(t *Treatment) { t.Table, t.IPv6 = 1000, false })
	far, routes := upstream(t, r)
	config := func(a, b string) string {
		return fmt.Sprintf(birdConfig, fmt.Sprintf(session, "10.2.0.1", "10.2.0.50", "all", "none"), a, b)
	}
	const all, without = "0.0.0.0/0+", "0.0.0.0/1+, 128.0.0.0/2+"
	near := startBird(t, r.Router, config(all, all))
	var dests []netip.Addr
	for i := range 64 {
		dests = append(dests, routes[i*7919%len(routes)].Masked().Addr().Next())
	}
	whole := func() {
		t.Helper()
		testutil.Eventually(t, patient, "the whole table in the kernel's table 1000", func() bool {
			out, err := exec.Command("sh", "-c", "ip -n "+r.Router.Name+" route show table 1000 | wc -l").Output()
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			_, _ = fmt.Sscan(string(out), &n)
			return n >= len(routes)*99/100 // a real table has duplicates
		})
	}
	whole()
	r.follow()
	offloaded := func() bool {
		for _, to := range dests {
			if hop := r.hop(to.String()); hop != 2 && hop != 3 {
				return false
			}
		}
		return true
	}
	testutil.Eventually(t, patient, "the whole table offloaded", offloaded)
	// One pipe at a time loses a quarter of the table and gets it back.
	changed := make(chan struct{})
	go func() {
		defer close(changed)
		for _, filters := range [][2]string{{without, all}, {all, all}, {all, without}, {all, all}} {
			near.write(config(filters[0], filters[1]))
			near.command("configure")
			near.command("reload", "offload_a")
			near.command("reload", "offload_b")
		}
	}()
	before := r.forwarded()
	hops := r.Stream(t, dests, volleys(t))
	<-changed
	packets := 0
	for octet, n := range hops {
		if packets += n; octet != 2 && octet != 3 {
			t.Errorf("%d packets went to a neighbour %#x", n, octet)
		}
	}
	t.Logf("%d routes; %d packets came out while filters changed, %d of them by XDP", len(routes), packets, r.forwarded()-before)
	if r.forwarded() == before {
		t.Error("nothing was forwarded by the fast path")
	}
	if !offloaded() {
		t.Error("after the filters had changed and changed back, some routes are not offloaded")
	}
	far.command("disable", "upstream")
	testutil.Eventually(t, patient, "the withdrawal of the table", func() bool { return r.hop(dests[0].String()) == 0 })
	far.command("enable", "upstream")
	whole()
	testutil.Eventually(t, patient, "the whole table offloaded again", offloaded)
	testutil.Eventually(t, patient, "a table that is the kernel's", func() bool { return r.verify().Holds() })
}

// forwarded returns the number of packets that the fast path has forwarded.
func (r *router) forwarded() uint64 {
	r.t.Helper()
	report, err := r.plane.Report(r.state)
	if err != nil {
		r.t.Fatal(err)
	}
	return report.Host[0].Count
}
