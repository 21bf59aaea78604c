// SPDX-License-Identifier: Apache-2.0

package class

import "weir/internal/dscp"

import "testing"

// Each command has its own marks, and an ended command frees its entry.
func TestMarksOfSeveralCgroups(t *testing.T) {
	s := newStage(t)
	must(t, s.here.Do(func() error {
		marks, err := OpenMarks(2)
		if err != nil {
			return err
		}
		defer func() { _ = marks.Close() }()
		one, err := marks.Add(s.group(t, "one").Path, dscp.LowEffort)
		must(t, err)
		two, err := marks.Add(s.group(t, "two").Path, dscp.LowEffort)
		must(t, err)
		if _, err := marks.Add(s.group(t, "three").Path, dscp.LowEffort); err == nil {
			t.Error("a third cgroup was marked of two")
		}
		s.send(t, "one", thereAddress, 0, 3)
		s.send(t, "two", thereAddress, 0, 2)
		must(t, one.Close())
		s.send(t, "one", thereAddress, 0, 1)
		s.send(t, "two", thereAddress, 0, 2)
		three, err := marks.Add(s.group(t, "three").Path, dscp.Scavenger)
		must(t, err)
		s.send(t, "three", thereAddress, 0, 1)
		for m, want := range map[*Marked]uint64{two: 4, three: 1} {
			if got, err := m.Counts(); err != nil || got.Packets != want || got.Marked != want {
				t.Errorf("counted %+v, %v, want %d packets, all of them marked", got, err, want)
			}
		}
		return nil
	}))
}

// The counters of a command belong to it alone.
func TestMarksOfACommandAreCounted(t *testing.T) {
	s := newStage(t)
	must(t, s.here.Do(func() error {
		marks, err := Mark(s.group(t, "run").Path, dscp.LowEffort)
		if err != nil {
			return err
		}
		defer func() { _ = marks.Close() }()
		s.send(t, "run", thereAddress, 0, 3)
		s.send(t, "run", thereAddress, int(le), 1)
		s.send(t, "elsewhere", thereAddress, 0, 2)
		got, err := marks.Counts()
		if got.Packets != 4 || got.Marked != 3 || got.Octets == 0 || got.Failed != 0 {
			t.Errorf("counted %+v, want 4 packets, 3 of them marked", got)
		}
		return err
	}))
}
