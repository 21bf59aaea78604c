package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/daemon"
	"weir/internal/units"
	"weir/limit"
	"weir/policy"
)

// topDocument is weir-top/1.
type topDocument struct {
	Format     string             `json:"format"`
	Interval   float64            `json:"interval_s"`
	Controller *daemon.Controller `json:"controller,omitempty"`
	Rows       []topRow           `json:"rows"`
}

// topRow is what one direction of a scope did within an interval. Rates are bit/s or events per second.
type topRow struct {
	Scope     string        `json:"scope"`
	Applies   string        `json:"applies_to"`
	Direction string        `json:"direction"`
	State     string        `json:"state"`
	Parent    string        `json:"parent,omitempty"`
	Limit     units.BitRate `json:"limit_bit_s"`
	Allowed   units.BitRate `json:"allowed_bit_s"` // less than the limit where the scope shares a parent
	Rate      units.BitRate `json:"rate_bit_s"`
	Share     float64       `json:"share"` // of the limit
	Queue     float64       `json:"queue_s"`
	Fair      units.BitRate `json:"fair_rate_bit_s"`
	Marked    float64       `json:"marked_per_s"`
	Reduced   float64       `json:"reduced_per_s"`
	Refused   float64       `json:"refused_per_s"`
	// Percentiles of the interval's TCP round-trip times, upper bounds of buckets that double; 0 without samples.
	RTT50 float64 `json:"rtt_p50_s"`
	RTT99 float64 `json:"rtt_p99_s"`
}

// topRows compares two looks. The busiest come first: by share of the limit, then by name.
func topRows(before, after daemon.Status, elapsed time.Duration) []topRow {
	type key struct{ scope, direction string }
	was := map[key]*limit.Counters{}
	for _, s := range before.Scopes {
		was[key{s.Scope.Name, "egress"}], was[key{s.Scope.Name, "ingress"}] = s.Egress, s.Ingress
	}
	rows := []topRow{}
	for _, s := range after.Scopes {
		for _, d := range []struct {
			name  string
			rate  *policy.Rate
			count *limit.Counters
			now   *limit.State
		}{{"egress", s.Scope.Egress, s.Egress, s.EgressNow}, {"ingress", s.Scope.Ingress, s.Ingress, s.IngressNow}} {
			if d.rate == nil {
				continue
			}
			row := topRow{Scope: s.Scope.Name, Applies: s.Scope.Applies.String(), Direction: d.name, State: s.State, Parent: s.Scope.Parent, Limit: d.rate.Rate}
			if d.now != nil {
				row.Queue, row.Fair, row.Allowed = d.now.Queue.Seconds(), d.now.FairRate, d.now.Allowed
			}
			if old := was[key{s.Scope.Name, d.name}]; old != nil && d.count != nil && elapsed > 0 {
				row.count(old, d.count, elapsed)
			}
			rows = append(rows, row)
		}
	}
	slices.SortStableFunc(rows, func(a, b topRow) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Direction, b.Direction))
	})
	return rows
}

// count fills in what was counted between two looks. A counter that went back belongs to a new data plane.
func (r *topRow) count(old, now *limit.Counters, elapsed time.Duration) {
	if now.Bytes < old.Bytes {
		old = &limit.Counters{}
	}
	perSecond := func(old, now uint64) float64 { return float64(now-min(old, now)) / elapsed.Seconds() }
	r.Rate = units.BitRate(perSecond(old.Bytes, now.Bytes) * 8)
	r.Share = float64(r.Rate) / float64(max(1, r.Limit))
	r.Marked, r.Reduced, r.Refused = perSecond(old.Marked, now.Marked), perSecond(old.Reduced, now.Reduced), perSecond(old.Refused, now.Refused)
	var rtt [32]uint64
	for i := range rtt {
		rtt[i] = now.RTT[i] - min(old.RTT[i], now.RTT[i])
	}
	r.RTT50, r.RTT99 = limit.Percentile(rtt, 0.5)/1e6, limit.Percentile(rtt, 0.99)/1e6
}

var topColumns = []string{"scope", "applies to", "direction", "limit", "may use", "rate", "of limit", "queue", "RTT p50/p99", "fair rate", "marks/s", "reductions/s", "refused/s", "state"}

// Columns that the live view treats apart.
const (
	shareColumn   = 6
	refusedColumn = 12
	stateColumn   = 13
)

// cells are the row's text, one for each of topColumns.
func (r topRow) cells() []string {
	return []string{r.Scope, r.Applies, r.Direction, short(r.Limit), short(r.Allowed), short(r.Rate), fmt.Sprintf("%.1f %%", 100*r.Share),
		queue(r.Queue), roundTrips(r.RTT50, r.RTT99), short(r.Fair), events(r.Marked), events(r.Reduced), events(r.Refused), r.State}
}

// short prints a rate with three digits or so: it changes with every look, and its width should not.
func short(r units.BitRate) string {
	value, unit := float64(r), 0
	names := []string{"bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"}
	for ; value >= 999.5 && unit < len(names)-1; unit++ {
		value /= 1000
	}
	switch {
	case unit == 0 || value >= 99.95:
		return fmt.Sprintf("%.0f %s", value, names[unit])
	case value >= 9.995:
		return fmt.Sprintf("%.1f %s", value, names[unit])
	}
	return fmt.Sprintf("%.2f %s", value, names[unit])
}

// queue prints a time in milliseconds.
func queue(seconds float64) string { return fmt.Sprintf("%.2f ms", seconds*1e3) }

// roundTrips prints two percentiles in milliseconds, and a dash where no sender has measured any.
func roundTrips(p50, p99 float64) string {
	if p99 == 0 {
		return "–"
	}
	return fmt.Sprintf("%.3g/%.3g ms", p50*1e3, p99*1e3)
}

// events prints a number per second, and a dash for none, so that the eye finds the others.
func events(n float64) string {
	switch {
	case n == 0:
		return "–"
	case n < 9.95:
		return fmt.Sprintf("%.1f", n)
	}
	return fmt.Sprintf("%.0f", n)
}

// bar draws a share as so many cells, by eighths.
func bar(share float64, width int) string {
	eighths := int(min(max(share, 0), 1)*float64(width)*8 + 0.5)
	text := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		text += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}
	return text + strings.Repeat(" ", width-(eighths+7)/8)
}
