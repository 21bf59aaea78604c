// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weir/kernel/probe"
	"weir/kernel/testutil"
	"weir/lab/link/emulator"
	"weir/lab/traffic/native"
)

// clean holds scenarios that together have every kind of flow and of impairment, routers, plain
// links and several phases.
var clean = map[string]string{
	"bulk and datagrams over a lossy link": `
links: [{name: path, ends: [a, b], rate: 20Mbit, delay: 5ms, queue: 1 bdp, loss: 1%}]
phases:
  - {name: only, duration: 1s, settle: 200ms, flows: [{name: bulk, kind: bulk, from: a, to: b, congestion: cubic}, {name: datagrams, kind: udp, from: b, to: a, rate: 2Mbit}]}
`,
	"two phases over a router": `
routers: [r]
links: [{name: path, ends: [a, r], rate: 20Mbit, delay: 5ms, queue: 1 bdp}, {name: wire, ends: [r, b], plain: true}]
phases:
  - {name: first, duration: 700ms, flows: [{name: web, kind: request, from: a, to: b, request: 100B, response: 10kB, concurrency: 4}]}
  - {name: second, duration: 700ms, flows: [{name: bulk, kind: bulk, from: b, to: a, congestion: cubic, streams: 3}]}
`,
	"jitter, duplicates and reordering": `
links: [{name: path, ends: [a, b], rate: 20Mbit, delay: 5ms, jitter: 1ms, queue: 4 bdp, duplicate: 1%, reorder: 1%}]
phases:
  - {name: only, duration: 1s, flows: [{name: bulk, kind: bulk, from: a, to: b, congestion: cubic}]}
`,
	"handshakes that are lost": `
links: [{name: path, ends: [a, b], rate: 5Mbit, delay: 5ms, queue: 1 bdp, loss: 20%}]
phases:
  - {name: only, duration: 3s, flows: [{name: bulk, kind: bulk, from: a, to: b, congestion: cubic, streams: 30}]}
`,
	"damaged frames": `
links: [{name: path, ends: [a, b], rate: 20Mbit, delay: 5ms, queue: 1 bdp, corrupt: 1%}]
phases:
  - {name: only, duration: 1s, flows: [{name: bulk, kind: bulk, from: a, to: b, congestion: cubic}, {name: datagrams, kind: udp, from: a, to: b, rate: 2Mbit}]}
`,
	"IPv6 over a lossy link and a router": `
routers: [r]
links: [{name: path, ends: [a, r], rate: 20Mbit, delay: 5ms, queue: 1 bdp, loss: 1%}, {name: second, ends: [r, b], rate: 50Mbit}]
phases:
  - {name: only, duration: 1s, settle: 200ms, flows: [{name: bulk, kind: bulk, from: a, to: b, family: 6, congestion: cubic}, {name: old, kind: bulk, from: b, to: a, congestion: cubic}, {name: datagrams, kind: udp, from: b, to: a, family: 6, rate: 2Mbit}, {name: web, kind: request, from: a, to: b, family: 6, request: 100B, response: 10kB}]}
`,
	"transfers over a lossy link": `
links: [{name: path, ends: [a, b], rate: 20Mbit, delay: 5ms, queue: 4 bdp, loss: 1%}]
phases:
  - {name: first, duration: 1s, settle: 200ms, flows: [{name: web, kind: transfers, from: a, to: b, sizes: web-search, most: 100kB, load: 60%, drain: 300ms, congestion: cubic}]}
  - {name: second, duration: 1s, flows: [{name: back, kind: transfers, from: b, to: a, family: 6, sizes: data-mining, most: 1MB, arrivals: 40/s}, {name: bulk, kind: bulk, from: a, to: b, congestion: cubic}]}
`,
	"plain links only": `
routers: [r]
links: [{name: one, ends: [a, r], plain: true}, {name: two, ends: [r, b], plain: true}]
phases:
  - {name: only, duration: 500ms, flows: [{name: bulk, kind: bulk, from: a, to: b, rate: 50Mbit}, {name: web, kind: request, from: b, to: a, family: 6, request: 100B, response: 1kB}]}
`,
}

// byTheMachine lists rightful reasons on a machine with other load, or on a link with 20 % loss.
// WEIR_CLEAN_RUNS sets the repetitions of each scenario.
var byTheMachine = []string{"no handshake within", "stalled", "late; ", "every CPU", "other virtual machines", "link path"}

func TestCleanRunsAreNotRefusedForWhatTheWitnessSees(t *testing.T) {
	testutil.NeedSpeed(t)
	testutil.NeedRoot(t)
	testutil.Need(t, "AF_XDP", probe.AFXDP())
	times := 1
	_, _ = fmt.Sscan(os.Getenv("WEIR_CLEAN_RUNS"), &times)
	for name, text := range clean {
		t.Run(name, func(t *testing.T) {
			t.Setenv("WEIR_RUN_DIR", t.TempDir())
			s := parse(t, "version: 1\ntitle: a clean run\nrepetitions: 1\nattempts: 1\nhosts: [a, b]\n"+strings.TrimSpace(text)+"\n")
			valid, frames := 0, uint64(0)
			for n := range times {
				outcome, err := Execute(t.Context(), s, Options{Carrier: emulator.New(emulator.Options{}), Generator: native.New(), Gate: patient{}, Seed: uint64(n)})
				if outcome == nil || len(outcome.Results) != 1 {
					t.Fatal(err)
				}
				r := &outcome.Results[0]
				if r.Valid {
					valid++
				}
				for _, reason := range r.Reasons {
					if isByTheMachine(reason) {
						t.Logf("run %d is refused, rightly: %s", n, reason)
					} else {
						t.Errorf("run %d is refused: %s", n, reason)
					}
				}
				w := r.Judgement.Witness
				if w == nil || w.Frames == 0 || w.Settings == 0 || !w.Drained {
					t.Fatalf("run %d has no proof: %+v", n, w)
				}
				frames += w.Frames
			}
			t.Logf("%d of %d runs are valid, %d frames are accounted for", valid, times, frames)
		})
	}
}

func isByTheMachine(reason string) bool {
	for _, words := range byTheMachine {
		if strings.Contains(reason, words) && !strings.Contains(reason, "link path,") {
			return true
		}
	}
	return false
}

// A carrier that is killed costs an attempt, not the run.
func TestAKilledEmulatorCostsAnAttempt(t *testing.T) {
	killed := false
	outcome := spoil(t, strings.Replace(spoiled, "attempts: 1", "attempts: 3", 1), Options{}, func(s *saboteur) {
		if !killed {
			killed = true
			s.kill(s.emulator())
		}
	})
	if len(outcome.Results) < 2 || outcome.Results[0].Valid || !strings.Contains(outcome.Results[0].Reason(), "the links' carrier has ended") {
		t.Fatalf("%d results, the first one refused for %q", len(outcome.Results), outcome.Results[0].Reason())
	}
	if second := outcome.Results[1]; second.Attempt != 2 || len(second.Phases) != 1 {
		t.Errorf("the second attempt: %+v", second)
	}
}

// The kernel repeats the reports of its IPv6 groups hours later, in any run; a receiver drops them
// uncounted. Joining a group sends such a report at once.
func TestAReportOfAGroupSpoilsNoBalance(t *testing.T) {
	testutil.NeedSpeed(t)
	outcome := spoil(t, spoiled, Options{}, func(s *saboteur) {
		err := s.namespace("a").Do(func() error {
			device, err := net.InterfaceByName("path")
			if err != nil {
				return err
			}
			fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			t.Cleanup(func() { _ = unix.Close(fd) })
			group := unix.IPv6Mreq{Multiaddr: [16]byte{0: 0xff, 1: 0x05, 15: 0x77}, Interface: uint32(device.Index)}
			return unix.SetsockoptIPv6Mreq(fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP, &group)
		})
		if err != nil {
			t.Error(err)
		}
	})
	for _, reason := range outcome.Results[0].Reasons {
		if !isByTheMachine(reason) {
			t.Errorf("refused: %s", reason)
		}
	}
}
