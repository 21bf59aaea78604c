// SPDX-License-Identifier: Apache-2.0

package cc

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/core/match"
	"weir/core/module"
	"weir/core/policy"
	"weir/internal/child"
	"weir/internal/direction"
	"weir/internal/fault"
	"weir/kernel/testutil"
	"weir/modules/limit/police"
)

const (
	oneWay   = "  a: {cgroup: /inner, congestion: dctcp}\n  b: {prefix: 10.9.0.0/24, congestion: cubic}\n"
	otherWay = "  a: {cgroup: /inner, congestion: cubic}\n  c: {user: 4711, congestion: cubic}\n"
)

// restless describes the states between which the child process alternates until it is killed.
type restless struct {
	Pins, Root, Prefix string
}

// restlessPart reports once before it starts.
func restlessPart(in io.Reader, out io.Writer) error {
	var work restless
	if err := json.NewDecoder(in).Decode(&work); err != nil {
		return err
	}
	p := &hostPlane{module.Host{Pins: work.Pins, CgroupRoot: work.Root}, Module{work.Prefix}}
	one, err := p.read(oneWay)
	if err != nil {
		return err
	}
	other, err := p.read(otherWay)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(out).Encode("begin"); err != nil {
		return err
	}
	for {
		if _, err := p.Apply(module.State{}, one); err != nil {
			return err
		}
		if _, err := p.Apply(one, other); err != nil {
			return err
		}
		if _, err := p.Release(); err != nil {
			return err
		}
	}
}

// TestKilledHalfWay kills a process while it applies and releases. The next process completes
// either state, or removes everything.
func TestKilledHalfWay(t *testing.T) {
	s, random := newStage(t), testutil.Rand(t)
	one, other := s.plane.state(t, oneWay), s.plane.state(t, otherWay)
	for n := range 12 {
		process, err := child.Start(context.Background(), "restless", os.Stderr)
		if err != nil {
			t.Fatal(err)
		}
		work := restless{s.plane.host.Pins, s.plane.host.CgroupRoot, s.plane.module.prefix}
		var begun string
		err = json.NewEncoder(process.In).Encode(work)
		if err == nil {
			err = json.NewDecoder(process.Out).Decode(&begun)
		}
		if err != nil {
			t.Fatal(err)
		}
		select { // a random moment, or an error of the child
		case <-time.After(time.Duration(random.IntN(400)) * time.Millisecond):
			if err := unix.Kill(process.PID(), unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			<-process.Done()
		case <-process.Done():
			t.Fatal(process.Wait())
		}
		switch n % 3 {
		case 0:
			if _, err := s.plane.Release(); err != nil {
				t.Fatal(err)
			}
			s.plane.isGone(t)
		case 1:
			s.plane.apply(t, other, one)
			s.has(t, s.plane.ourName())
		case 2:
			s.plane.apply(t, one, other)
			s.has(t, "cubic")
		}
	}
}

// has makes a connection in the cgroup and checks its control.
func (s *stage) has(t *testing.T, want string) {
	t.Helper()
	listener := ""
	if want == s.plane.ourName() {
		listener = want
	}
	s.send(task{Namespace: s.client.Name, Address: s.listen(t, listener).Addr().String()})
	if got := s.answer(); got != want {
		t.Errorf("a connection has %s, not %s", got, want)
	}
}

// TestApplyTellsOfOpenConnections: an open connection keeps its control, and apply reports it.
func TestApplyTellsOfOpenConnections(t *testing.T) {
	s := newStage(t)
	sender, _ := s.connect(t, "", "")
	want := s.plane.state(t, "  a: {prefix: 10.9.0.0/16, congestion: cubic}\n")
	if notes := s.plane.apply(t, module.State{}, want); len(notes) != 1 {
		t.Errorf("noted %q", notes)
	}
	if got := controlName(t, sender); got != "reno" {
		t.Errorf("the open connection has %s", got)
	}
	if notes := s.plane.apply(t, want, want); len(notes) > 0 {
		t.Errorf("nothing changed, and noted %q", notes)
	}
	for range 2 {
		s.plane.apply(t, want, want)
	}
	s.has(t, "cubic")
}

// TestAControlThatHasGone applies a policy with a control after its kernel module was unloaded.
func TestAControlThatHasGone(t *testing.T) {
	s := newStage(t)
	want := s.plane.state(t, "  a: {host: true, congestion: never-made}\n")
	if _, err := s.plane.Apply(module.State{}, want); err != nil {
		t.Fatal(err)
	}
	s.has(t, "reno")
	if got := s.plane.counts(t, want)["a"]; got != [4]uint64{0, 0, 0, 1} {
		t.Errorf("counted %v", got)
	}
}

// TestTheCommandAndThePolicyShare: weir cc install and a policy use the same control.
func TestTheCommandAndThePolicyShare(t *testing.T) {
	s := newStage(t)
	name, pins := s.plane.ourName(), s.plane.host.Pins
	want := s.plane.state(t, "  a: {host: true, congestion: dctcp}\n")
	s.plane.apply(t, module.State{}, want)
	refusesToRemove(t, pins, name)
	if _, err := s.plane.Release(); err != nil {
		t.Fatal(err)
	}
	s.plane.isGone(t)

	installed, err := Install("dctcp", Options{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	if err := installed.Pin(pins); err != nil {
		t.Fatal(err)
	}
	_ = installed.Close()
	s.plane.apply(t, module.State{}, want)
	s.has(t, name)
	refusesToRemove(t, pins, name)
	if _, err := s.plane.Release(); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(offered(t), name) {
		t.Error("the policy's end took what weir cc install had installed")
	}
	if err := Remove(pins, name); err != nil {
		t.Error(err)
	}
	if exists(pins) {
		t.Errorf("%s is left behind", pins)
	}
}

func refusesToRemove(t *testing.T, pins, name string) {
	t.Helper()
	if err := Remove(pins, name); fault.Of(err) != fault.Usage || fault.Advice(err) == "" {
		t.Errorf("removed what the policy uses: %v", err)
	}
	controls, err := List(pins)
	at := slices.IndexFunc(controls, func(c Control) bool { return c.Name == name })
	if err != nil || at < 0 || !controls[at].InForce {
		t.Errorf("listed as %+v, %v", controls, err)
	}
}

// TestBesideLimits attaches the policer's programs to the same cgroup, before and after.
func TestBesideLimits(t *testing.T) {
	for _, description := range []string{"limits first", "limits last"} {
		t.Run(description, func(t *testing.T) {
			s := newStage(t)
			want := s.plane.state(t, "  a: {host: true, congestion: dctcp}\n")
			var limits *police.DataPlane
			if description == "limits first" {
				limits = limitHost(t, s)
				s.plane.apply(t, module.State{}, want)
			} else {
				s.plane.apply(t, module.State{}, want)
				limits = limitHost(t, s)
			}
			s.has(t, s.plane.ourName())
			testutil.Eventually(t, 10*time.Second, "a round trip that limits are told of", func() bool {
				counters, err := limits.Counters(0, direction.Egress)
				if err != nil {
					t.Fatal(err)
				}
				return counters.RTT != [32]uint64{}
			})
		})
	}
}

// limitHost limits the stage's cgroup.
func limitHost(t *testing.T, s *stage) *police.DataPlane {
	t.Helper()
	limits, err := police.Load(1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = limits.Close() })
	id, err := s.group.ID()
	err = errors.Join(err, limits.Attach(s.group.Path), limits.Set(0, direction.Egress, police.Limit{Rate: 1_000_000_000}), limits.Assign(match.OfCgroup(id), 0))
	if err != nil {
		t.Fatal(err)
	}
	return limits
}

func TestProofLooksAtTheControl(t *testing.T) {
	p, err := parse("  a: {user: 1, congestion: dctcp}\n  b: {user: 2, congestion: cubic}\n  c: {user: 3, congestion: dctcp, shadow: true}\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		scope  int
		got    string
		around []policy.Scope
		want   module.Verdict
	}{
		{0, "weir_dctcp", nil, module.Holds}, {0, "cubic", nil, module.CannotSay}, {0, "", nil, module.CannotSay},
		{1, "cubic", nil, module.Holds}, {1, "reno", nil, module.Fails}, {1, "weir_dctcp", p.Scopes[:1], module.CannotSay},
		{1, "weir_dctcp", p.Scopes[2:], module.Fails},
	} {
		checks := Module{}.Checks(p.Scopes[test.scope])
		if len(checks) != 1 || checks[0].Paths(module.Path{Protocol: module.UDP}) {
			t.Fatalf("checks %+v", checks)
		}
		samples := []module.Sample{{Congestion: test.got}}
		if got, why := checks[0].Judge(samples, module.Circumstances{Around: test.around}); got != test.want || got != module.Holds && why == "" {
			t.Errorf("%s with %q: %s, %s", p.Scopes[test.scope].Name, test.got, got, why)
		}
	}
}
