// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"weir/record"
	"weir/record/summary"
)

// machine lists the known properties of the host.
func machine(m record.Machine) [][2]string {
	list := [][2]string{{"kernel", m.Kernel}, {"CPU", m.CPU}}
	if m.Cores > 0 {
		list = append(list, [2]string{"cores", fmt.Sprint(m.Cores)})
	}
	if m.Memory > 0 {
		list = append(list, [2]string{"memory", fmt.Sprintf("%.1f GiB", float64(m.Memory)/(1<<30))})
	}
	list = append(list, [2]string{"distribution", m.Distro}, [2]string{"virtualization", m.Virtual})
	if m.Clock == record.InstructionClock {
		list = append(list, [2]string{"virtual clock", "one nanosecond per instruction, so no figure includes the cost of code"})
	}
	return slices.DeleteFunc(list, func(pair [2]string) bool { return pair[1] == "" })
}

// shell quotes a command for pasting into a shell.
func shell(command []string) string {
	quoted := make([]string, len(command))
	for i, word := range command {
		plain := word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,%+@") == ""
		if plain {
			quoted[i] = word
		} else {
			quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// rejected lists the attempts that did not count, each once, with the reason; more is the number of
// further ones.
func rejected(samples []record.Sample) (list []string, more int) {
	type attempt struct {
		labels, reason string
		repetition     int
		attempt        int
	}
	seen := map[attempt]bool{}
	var found []attempt
	for _, s := range samples {
		a := attempt{summary.Text(s.Labels), s.Reason, s.Repetition, s.Attempt}
		if !s.Valid && !seen[a] {
			seen[a] = true
			found = append(found, a)
		}
	}
	slices.SortStableFunc(found, func(a, b attempt) int {
		return cmp.Or(summary.Compare(a.labels, b.labels), cmp.Compare(a.repetition, b.repetition), cmp.Compare(a.attempt, b.attempt))
	})
	if len(found) > attemptLimit {
		more = len(found) - attemptLimit
		found = found[:attemptLimit]
	}
	for _, a := range found {
		where := fmt.Sprintf("repetition %d, attempt %d", a.repetition, a.attempt)
		if a.labels != "" {
			where = a.labels + ", " + where
		}
		list = append(list, where+": "+cmp.Or(a.reason, "no reason given"))
	}
	return list, more
}

// proofs lists the reasons why runs count; more is the number of further ones.
func proofs(all []record.Proof) (list []string, more int) {
	for _, p := range all {
		if len(list) == attemptLimit {
			return list, len(all) - attemptLimit
		}
		where := fmt.Sprintf("repetition %d", p.Repetition)
		if labels := summary.Text(p.Labels); labels != "" {
			where = labels + ", " + where
		}
		list = append(list, where+": "+p.Why+".")
	}
	return list, 0
}

// values returns a figure as a table, for screen readers; nil if it has too many points.
func values(f record.Figure) *record.Table {
	table := record.Table{Title: "Values of this figure", Columns: []string{"curve", cmp.Or(f.XLabel, "x"), cmp.Or(f.YLabel, "y"), "95 % interval"}}
	for _, c := range f.Curves {
		if len(c.X) > pointLimit || len(c.Y) != len(c.X) {
			return nil
		}
		for i, x := range c.X {
			interval := "–"
			if i < len(c.Low) && i < len(c.High) && c.Low[i] == c.Low[i] && c.High[i] == c.High[i] {
				interval = f.YUnit.FormatInterval(c.Low[i], c.High[i])
			}
			y := "–"
			if c.Y[i] == c.Y[i] {
				y = f.YUnit.Format(c.Y[i])
			}
			table.Rows = append(table.Rows, []string{c.Name, xText(f, x), y, interval})
		}
	}
	if len(table.Rows) == 0 {
		return nil
	}
	return &table
}

// xText names a place on the x axis.
func xText(f record.Figure, x float64) string {
	if i := int(x); len(f.XNames) > 0 && x == float64(i) && i >= 0 && i < len(f.XNames) {
		return f.XNames[i]
	}
	if f.XUnit == record.Share {
		return record.Share.Format(x*100) + " %"
	}
	return f.XUnit.Format(x)
}
