// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/direction"
	"weir/kernel/probe"
	"weir/kernel/testutil"
)

// The replaced qdisc tree is reported before and while packets wait in the new one.
func TestReplacedTreesAreReported(t *testing.T) {
	testutil.Need(t, "prio", probe.Qdisc("prio"))
	s := newStage(t)
	words := strings.Fields("-n " + s.here.Name + " qdisc add dev eth0 root handle 5: prio")
	if out, err := exec.Command(testutil.Command(t, "tc"), words...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	work := Work{Shapers: []Shaper{s.shaper(direction.Egress, time.Second), s.shaper(direction.Ingress, time.Second)}}
	trees := func() (before, meanwhile []string) {
		s.do(func() (err error) {
			before = s.host.PlanNotes(work)
			meanwhile, err = s.host.Replaced()
			return err
		})
		return before, meanwhile
	}
	want := []string{"prio at eth0"}
	if before, meanwhile := trees(); !slices.Equal(before, want) || len(meanwhile) > 0 {
		t.Errorf("before: planned %q, replaced %q", before, meanwhile)
	}
	s.apply(work.Shapers...)
	if before, meanwhile := trees(); len(before) > 0 || !slices.Equal(meanwhile, want) {
		t.Errorf("active: planned %q, replaced %q", before, meanwhile)
	}
}
