// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"weir/kernel/testutil"
	"weir/modules/offload/plan"
)

// upheaval returns random changes of a router as lines of ip(8). Any of them may fail.
func upheaval(r *rand.Rand) (lines []string) {
	v4 := func() string {
		return fmt.Sprintf("100.%d.%d.%d/%d", 64+r.IntN(8), r.IntN(3)*100, r.IntN(2)*128, []int{8, 16, 17, 24, 25, 30, 32}[r.IntN(7)])
	}
	v6 := func() string {
		return fmt.Sprintf("2001:db8:%x::/%d", 0x6400+r.IntN(8)*0x100, []int{32, 40, 41, 48, 64, 128}[r.IntN(6)])
	}
	side := 1 + r.IntN(2)
	via4, via6 := fmt.Sprintf("via 10.%d.0.%d", side, 2+r.IntN(3)), fmt.Sprintf("via 2001:db8:%d::%d", side, 2+r.IntN(3))
	device := fmt.Sprintf("p%d", r.IntN(2))
	switch r.IntN(14) {
	case 0, 1:
		return []string{"route replace " + v4() + " " + via4}
	case 2:
		return []string{"-6 route replace " + v6() + " " + via6}
	case 3:
		return []string{"route del " + v4(), "-6 route del " + v6()}
	case 4:
		kind := []string{"blackhole", "unreachable", "prohibit"}[r.IntN(3)]
		return []string{"route replace " + kind + " " + v4(), "-6 route replace " + kind + " " + v6()}
	case 5:
		return []string{fmt.Sprintf("route replace %s %s mtu %d", v4(), via4, 600+r.IntN(900))}
	case 6:
		return []string{"route replace " + v4() + " nexthop via 10.2.0.2 weight 2 nexthop via 10.2.0.3 nexthop via 10.1.0.2",
			"-6 route replace " + v6() + " nexthop via 2001:db8:2::2 nexthop via 2001:db8:2::3"}
	case 7:
		return []string{fmt.Sprintf("route append %s %s metric %d", v4(), via4, r.IntN(3))}
	case 8:
		return []string{fmt.Sprintf("neigh del 10.2.0.%d dev p1", 2+r.IntN(2))}
	case 9:
		state := []string{"permanent", "stale", "failed", "reachable"}[r.IntN(4)]
		host := 2 + r.IntN(2)
		return []string{fmt.Sprintf("neigh replace 10.2.0.%d lladdr 02:aa:00:00:%02x:%02x dev p1 nud %s", host, 2+r.IntN(2), host, state)}
	case 10:
		return []string{fmt.Sprintf("addr add 100.%d.0.%d/32 dev %s", 64+r.IntN(8), r.IntN(3), device)}
	case 11:
		return []string{fmt.Sprintf("addr del 100.%d.0.%d/32 dev %s", 64+r.IntN(8), r.IntN(3), device)}
	case 12:
		return []string{"link set dev " + device + " down", "link set dev " + device + " up",
			fmt.Sprintf("neigh replace 10.%s.0.2 lladdr 02:aa:00:00:02:02 dev %s nud permanent", map[string]string{"p0": "1", "p1": "2"}[device], device)}
	default:
		return []string{fmt.Sprintf("link set dev %s mtu %d", device, 1280+r.IntN(3)*110)}
	}
}

// After random changes of a router under a random policy, the fast path soon forwards as the kernel
// does, in its table and in test runs. WEIR_UPHEAVALS is the number of routers.
func TestNothingGoesAstrayWhateverHappens(t *testing.T) {
	testutil.NeedSpeed(t) // a table is valid for a second of real time
	random, rounds, forwarded := testutil.Rand(t), 1, 0
	if text := os.Getenv("WEIR_UPHEAVALS"); text != "" {
		if _, err := fmt.Sscan(text, &rounds); err != nil {
			t.Fatal(err)
		}
	}
	for round := range rounds {
		r := newRouter(t, func(t *Treatment) {
			t.Multipath = []string{string(plan.Split), string(plan.Leave)}[random.IntN(2)]
			if random.IntN(3) > 0 {
				t.Except = []string{"100.66.0.0/15", "2001:db8:6600::/39"}
			}
			t.Budget = random.IntN(2) * (1 + random.IntN(40))
		})
		r.follow()
		var history []string
		for range 12 {
			for range 1 + random.IntN(5) {
				for _, line := range upheaval(random) {
					out, err := exec.Command("ip", append([]string{"-n", r.Router.Name}, strings.Fields(line)...)...).CombinedOutput()
					history = append(history, fmt.Sprintf("%s %v %s", line, err, strings.TrimSpace(string(out))))
				}
			}
			var last Verdict
			settled := func() bool {
				last = r.verify()
				forwarded += last.Sent
				return last.Holds()
			}
			for end := time.Now().Add(time.Minute); !settled(); {
				if time.Now().After(end) {
					t.Fatalf("round %d, policy %+v: %+v\nafter\n%s", round, treatmentOf(r.state), last.Document(), strings.Join(history, "\n"))
				}
			}
		}
	}
	if forwarded == 0 {
		t.Error("nothing was ever forwarded")
	}
}
