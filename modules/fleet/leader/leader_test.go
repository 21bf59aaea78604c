// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"math"
	"testing"
	"time"

	"weir/modules/fleet/alloc"
	"weir/modules/fleet/wire"
)

const lease = time.Second

// stage is a leader of one shared limit of 100 bit/s, and its time.
type stage struct {
	*testing.T
	now    time.Time
	leader *Leader
	number map[string]uint64
}

func newStage(t *testing.T, members ...Member) *stage {
	t.Helper()
	s := &stage{T: t, now: time.Unix(1000, 0), number: map[string]uint64{}}
	var tree Tree
	if err := tree.Add("wan", "", alloc.Limit{Rate: 100}); err != nil {
		t.Fatal(err)
	}
	s.leader = New(s.now, 5, lease, tree, members)
	return s
}

// report sends a report with one claim, and returns the grants.
func (s *stage) report(r wire.Report, c wire.Claim) map[string]wire.Grant {
	s.number[r.Host]++
	r.Boot, r.Number = 1, s.number[r.Host]
	if c.ID == "" {
		c.ID = "x/egress"
	}
	if c.Limit == "" {
		c.Limit = "wan"
	}
	r.Claims = []wire.Claim{c}
	s.leader.Report(s.now, r)
	_, versions := s.leader.Unsaved()
	s.leader.Saved(versions)
	all := map[string]wire.Grant{}
	for _, o := range s.leader.Decide(s.now) {
		all[o.Host] = o.Grant
	}
	return all
}

func rate(g wire.Grant) float64 {
	if len(g.Rates) == 0 {
		return 0
	}
	return g.Rates[0].Rate
}

// A host that lies about its rate, its floor and the epoch delays raises of others by one lease at
// most, and does not take their guarantees.
func TestALyingHostHarmsNobody(t *testing.T) {
	for name, lie := range map[string]wire.Claim{
		"rate":           {Rate: 1e15},
		"floor":          {Floor: 1e15},
		"both":           {Rate: 1e15, Floor: 1e15, Used: 1e15, Throttled: true},
		"guarantee":      {Min: 1e15, Rate: 1e15, Floor: 1e15},
		"unknown limit":  {Limit: "lan", Rate: 1e15, Floor: 1e15},
		"another's name": {ID: "victim", Floor: 1e15},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.report(wire.Report{Host: "liar"}, lie) // a new host, without an epoch
			s.report(wire.Report{Host: "victim"}, wire.Claim{})
			for range 12 {
				s.now = s.now.Add(lease / 4)
				s.report(wire.Report{Host: "liar", Epoch: 5}, lie)
				g := s.report(wire.Report{Host: "victim", Epoch: 5, Grant: math.MaxUint64}, wire.Claim{Min: 10, Throttled: true})
				s.leader.hosts["victim"].confirm(g["victim"].Number)
			}
			if got := s.leader.hosts["victim"].claims["x/egress"]; got.rate < 45 || got.floor != 10 {
				t.Errorf("the victim has %v with the floor %v, want its half and 10", got.rate, got.floor)
			}
			if all := s.leader.Members(); len(all) != 2 {
				t.Errorf("members: %+v", all)
			}
		})
	}
}

func TestAHigherEpochDoesNotDepose(t *testing.T) {
	s := newStage(t)
	s.report(wire.Report{Host: "a"}, wire.Claim{})
	s.report(wire.Report{Host: "liar", Epoch: math.MaxUint64}, wire.Claim{})
	s.now = s.now.Add(lease / 4)
	g := s.report(wire.Report{Host: "a", Epoch: 5}, wire.Claim{Throttled: true})
	if rate(g["a"]) != 100 {
		t.Errorf("after a report with a higher epoch a has %+v", g)
	}
	if got := s.leader.Status(s.now).Limits[0].Hosts; got != 1 {
		t.Errorf("%d hosts are in contact, want 1", got)
	}
}

// Guarantees are admitted while they fit; the first come first.
func TestGuaranteesAreAdmittedWhileTheyFit(t *testing.T) {
	s := newStage(t)
	for _, host := range []string{"a", "b", "c"} {
		s.report(wire.Report{Host: host, Epoch: 5}, wire.Claim{Min: 40})
	}
	s.now = s.now.Add(lease / 10)
	want := map[string]float64{"a": 40, "b": 40, "c": 0}
	for _, h := range s.leader.Status(s.now).Hosts {
		if h.Floor != want[h.Host] || (h.Reason == "") != (want[h.Host] > 0) {
			t.Errorf("%+v, want the floor %v", h, want[h.Host])
		}
	}
	if err := s.leader.CheckTree(Tree{}); err == nil {
		t.Error("a limit with guarantees was removed")
	}
	if err := s.leader.Remove(s.now, "a"); err == nil {
		t.Error("a host in contact was removed")
	}
	s.now = s.now.Add(3 * lease)
	if err := s.leader.Remove(s.now, "a"); err != nil {
		t.Error(err)
	}
	if s.report(wire.Report{Host: "c", Epoch: 5}, wire.Claim{Min: 40}); s.leader.hosts["c"].claims["x/egress"].floor != 40 {
		t.Error("the guarantee of the third host does not follow a removal")
	}
}

// A new leader raises nothing until all members have reported to it, or one lease has passed.
func TestANewLeaderWaitsForUnknownGrants(t *testing.T) {
	member := Member{Host: "silent", Floors: map[string]Floor{"x/egress": {"wan", 20}}}
	s := newStage(t, member)
	s.report(wire.Report{Host: "a"}, wire.Claim{})
	if g := s.report(wire.Report{Host: "a", Epoch: 5}, wire.Claim{Throttled: true}); rate(g["a"]) != 0 {
		t.Errorf("with an unknown member a has %v at once", rate(g["a"]))
	}
	s.now = s.now.Add(lease + lease/20)
	if g := s.report(wire.Report{Host: "a", Epoch: 5}, wire.Claim{Throttled: true}); rate(g["a"]) != 80 {
		t.Errorf("after one lease a has %v, want the limit without the silent host's floor, 80", rate(g["a"]))
	}
}
