// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"
	"strconv"

	"weir/record"
	"weir/tester/session"
)

// MaxRows is the maximum number of streams in a table; the samples hold all.
const MaxRows = 100

const dash = "–"

// Tables returns the tables of an account: frames, delays, and other arrivals.
func Tables(a session.Account) []record.Table {
	tables := []record.Table{Frames(a)}
	if t := delayTable(a); len(t.Rows) > 0 {
		tables = append(tables, t)
	}
	if t := oddTable(a); len(t.Rows) > 0 {
		tables = append(tables, t)
	}
	if a.Foreign+a.Unknown > 0 {
		tables = append(tables, record.Table{
			Title: "Other frames at the receiving ports", Columns: []string{"frames", "without a stamp", "of unannounced streams"},
			Rows: [][]string{{strconv.FormatUint(a.Foreign+a.Unknown, 10), strconv.FormatUint(a.Foreign, 10), strconv.FormatUint(a.Unknown, 10)}},
		})
	}
	return tables
}

// Frames returns the table of sent and received frames, also used for the live view.
func Frames(a session.Account) record.Table {
	t := record.Table{
		Title:   "Frames",
		Columns: []string{"stream", "sent", "received", "lost", "loss", "duplicates", "reordered", "payload errors", "sent/s", "received/s", "wire", "late"},
	}
	for i, s := range a.Streams {
		if i == MaxRows {
			t.Note = fmt.Sprintf("and %d more streams", len(a.Streams)-i)
			break
		}
		t.Rows = append(t.Rows, frameRow(s))
	}
	return t
}

func frameRow(s session.Stream) []string {
	row := []string{s.Name, dash, dash, dash, dash, dash, dash, dash, dash, dash, dash, dash}
	v := Values(s, session.Relative)
	if s.Sent != nil {
		row[1], row[8], row[11] = count(s.Sent.Frames), fmt.Sprintf("%.0f", s.Rate()), count(s.Sent.Late)
	}
	if c := s.Received; c != nil {
		row[2], row[3], row[4] = count(c.Received), count(s.Lost), percent(s.LossShare())
		row[5], row[6], row[7] = count(c.Duplicates), count(c.Reordered), count(c.PayloadErrors)
		row[9] = fmt.Sprintf("%.0f", s.Arrival())
		row[10] = record.BitPerSecond.Format(v["stream_wire_rate"])
	}
	return row
}

// oddTable lists the streams with frames that are neither in order nor lost, duplicate or late.
func oddTable(a session.Account) record.Table {
	t := record.Table{
		Title:   "Frames that a path cannot cause",
		Note:    "out of window: more than 8128 sequence numbers late, counted as lost unless it is a copy; misnumbered: the sequence number belongs to another frame; 0 s: arrived before it was sent",
		Columns: []string{"stream", "out of window", "wrong IPv4 header", "misnumbered", "sender began again", "0 s"},
	}
	for _, s := range a.Streams {
		c := s.Received
		if c == nil || len(t.Rows) == MaxRows {
			continue
		}
		early := c.NegativeDelays
		if a.Clock != session.OneWay {
			early = 0 // meaningless with two unrelated clocks
		}
		if c.OutOfWindow+c.HeaderErrors+c.Misnumbered+c.Restarts+early > 0 {
			t.Rows = append(t.Rows, []string{s.Name, count(c.OutOfWindow), count(c.HeaderErrors), count(c.Misnumbered), count(c.Restarts), count(early)})
		}
	}
	return t
}

func count(n uint64) string { return strconv.FormatUint(n, 10) }

func delayTable(a session.Account) record.Table {
	t := record.Table{Title: "One-way delay (RFC 7679) and its variation (RFC 3393)", Columns: []string{"stream", "min", "mean", "p50", "p99", "p99.9", "max", "variation mean", "p99"}}
	prefix := "owd_"
	if a.Clock != session.OneWay {
		t.Title = "Delay above the minimum (relative: two clocks) and its variation (RFC 3393)"
		prefix = "relative_delay_"
	}
	for _, s := range a.Streams {
		v := Values(s, a.Clock)
		if _, measured := v[prefix+"mean"]; !measured {
			continue
		}
		if len(t.Rows) == MaxRows {
			t.Note = "and more streams"
			break
		}
		row := []string{s.Name}
		for _, name := range []string{"min", "mean", "p50", "p99", "p999", "max"} {
			row = append(row, record.Seconds.Format(v[prefix+name]))
		}
		t.Rows = append(t.Rows, append(row, record.Seconds.Format(v["ipdv_mean"]), record.Seconds.Format(v["ipdv_p99"])))
	}
	return t
}
