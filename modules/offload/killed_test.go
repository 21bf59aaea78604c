// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"weir/core/module"
	"weir/core/policy"
	"weir/kernel/netns"
	"weir/kernel/testutil"
)

// Environment of a process that applies a policy until it is killed.
const (
	applierNamespace = "WEIR_TEST_ROUTER"
	applierPins      = "WEIR_TEST_PINS"
)

func TestMain(m *testing.M) {
	name := os.Getenv(applierNamespace)
	if name == "" {
		os.Exit(m.Run())
	}
	fmt.Fprintln(os.Stderr, applyForever(name, os.Getenv(applierPins)))
	os.Exit(1)
}

func applyForever(name, pins string) error {
	ns, err := netns.Open(name)
	if err != nil {
		return err
	}
	plane := Module{Namespace: ns}.Plane(module.Host{Pins: pins})
	for {
		if _, err := plane.Apply(module.State{}, filtersOf([]string{"p0", "p1"})); err != nil {
			return err
		}
	}
}

func filtersOf(from []string) module.State {
	return module.State{Host: []policy.Item{{Module: moduleName, Name: "offload", Treatment: &Treatment{From: from, Backend: byFlower, Multipath: "split", IPv4: true, IPv6: true}}}}
}

// After kill -9 at any moment of an apply, the next apply or release succeeds.
func TestFiltersOfAnApplyThatWasKilled(t *testing.T) {
	r := newFilters(t, byFlower)
	random := testutil.Rand(t)
	before := r.ingress("p0") + r.ingress("p1")
	for round := range 8 {
		r.killedWhileApplying(random)
		if round%2 == 0 {
			if _, err := r.plane.Release(); err != nil {
				t.Fatal(err)
			}
			if after := r.ingress("p0") + r.ingress("p1"); after != before {
				t.Fatalf("the ports were\n%s\nand are\n%s", before, after)
			}
			continue
		}
		r.apply()
		r.verifiesFilters()
		if in, err := r.plane.InPlace(r.state); !in || err != nil {
			t.Fatalf("not in place: %v", err)
		}
	}
}

// killedWhileApplying starts a process that repeats an apply, and kills it.
func (r *router) killedWhileApplying(random *rand.Rand) {
	r.t.Helper()
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), applierNamespace+"="+r.Router.Name, applierPins+"="+r.plane.host.Pins)
	child.Stderr = os.Stderr
	if err := child.Start(); err != nil {
		r.t.Fatal(err)
	}
	testutil.Eventually(r.t, time.Minute, "the first pins of the other process", func() bool {
		_, err := os.Stat(r.plane.host.Pins)
		return err == nil
	})
	time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond) // a random moment
	if err := child.Process.Kill(); err != nil {
		r.t.Fatal(err)
	}
	if err := child.Wait(); err == nil || child.ProcessState.ExitCode() >= 0 {
		r.t.Fatalf("the other process has ended by itself: %v", err)
	}
}
