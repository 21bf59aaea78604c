// SPDX-License-Identifier: Apache-2.0

package links

import (
	"slices"
	"strings"
	"testing"

	"weir/core/module"
)

// Plan, apply and status name the replaced tree.
func TestWhatIsReplacedIsSaid(t *testing.T) {
	const policy = "  eth0: {rate: 10Mbit}\n"
	for name, tree := range map[string]string{"default": "", "clsact": "", "pfifo": "pfifo", "htb": "htb with 1 class"} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, "")
			for line := range strings.Lines(formers[name]) {
				run(t, "tc", "-n "+s.here.Name+" "+line)
			}
			want := s.state(t, policy)
			planNotes := func() (notes []string) {
				must(t, s.here.Do(func() error { notes = s.plane.PlanNotes(want); return nil }))
				return notes
			}
			var expected []string
			if tree != "" {
				expected = []string{"links.eth0: its classes are in the place of " + tree + ", which weir release puts back"}
			}
			if notes := planNotes(); !slices.Equal(notes, expected) {
				t.Errorf("plan notes: %q, want %q", notes, expected)
			}
			notes, err := s.try(module.State{}, want)
			must(t, err)
			notes = slices.DeleteFunc(notes, func(note string) bool { return strings.Contains(note, "this kernel has no fq_codel") })
			if !slices.Equal(notes, expected) {
				t.Errorf("applied: %q, want %q", notes, expected)
			}
			if notes := planNotes(); len(notes) > 0 {
				t.Errorf("plan notes of the active state: %q", notes)
			}
			var report module.Report
			must(t, s.here.Do(func() (err error) {
				report, err = s.plane.Report(want)
				return err
			}))
			if !slices.Equal(report.Note, expected) {
				t.Errorf("active: %q, want %q", report.Note, expected)
			}
		})
	}
}
