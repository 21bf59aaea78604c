// SPDX-License-Identifier: Apache-2.0

package summary_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/record"
	"weir/record/summary"
)

func TestNaturalOrder(t *testing.T) {
	for _, want := range [][]string{
		{"0", "0.1%", "1%", "2%", "10%"},
		{"0", "500us", "20ms", "0.1s", "1s"},
		{"100 Mbit", "250Mbit", "500 Mbit", "1 Gbit"},
		{"0.5 BDP", "1 BDP", "2 BDP", "10 BDP"},
		{"64", "128", "512", "1518"},
		{"-5", "2", "bbr", "cubic"},
		{"host", "host2", "host10", "host10a"},
		{"64KiB", "1MiB"},
	} {
		got := slices.Clone(want)
		rand.New(rand.NewPCG(3, 4)).Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
		slices.SortFunc(got, summary.Compare)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
	}
}

// A comparison that is not transitive would make the order of rows depend on the order of samples.
func FuzzCompare(f *testing.F) {
	f.Add("1%", "10%", "x2")
	f.Add("500us", "100x", "20ms")
	f.Add("1.5", "1.50", "1.5.1")
	f.Add("NaN", "1e999", "Inf")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		if summary.Compare(a, b) != -summary.Compare(b, a) {
			t.Fatalf("%q and %q are not ordered the same both ways", a, b)
		}
		if summary.Compare(a, b) <= 0 && summary.Compare(b, c) <= 0 && summary.Compare(a, c) > 0 {
			t.Fatalf("%q <= %q <= %q, but not the first and the last", a, b, c)
		}
		if (summary.Compare(a, b) == 0) != (a == b) {
			t.Fatalf("%q and %q are different and compare as equal", a, b)
		}
	})
}

func sample(loss, cc string, repetition int, value float64) record.Sample {
	return record.Sample{Labels: record.Labels{"loss": loss, "cc": cc}, Subject: "aggregate", Metric: "goodput",
		Unit: record.BitPerSecond, Repetition: repetition, Attempt: 1, Value: value, Valid: true}
}

func TestRowsGroupOrderAndLeaveOutInvalid(t *testing.T) {
	rejected := sample("1%", "bbr", 2, 1e12)
	rejected.Valid, rejected.Reason = false, "the emulator dropped frames"
	infinite := sample("10%", "bbr", 1, math.Inf(1))
	samples := []record.Sample{
		sample("10%", "cubic", 1, 5e6), sample("1%", "cubic", 2, 100e6), infinite,
		sample("1%", "bbr", 1, 880e6), rejected, sample("1%", "cubic", 1, 120e6), sample("2%", "cubic", 1, 45e6),
	}
	rows := summary.Rows(samples)
	var order []string
	for _, row := range rows {
		order = append(order, summary.Text(row.Labels))
	}
	want := []string{"cc=bbr loss=1%", "cc=bbr loss=10%", "cc=cubic loss=1%", "cc=cubic loss=2%", "cc=cubic loss=10%"}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Fatalf("order (-want +got):\n%s", diff)
	}
	if bbr := rows[0]; bbr.Estimate.N != 1 || bbr.Estimate.Mean != 880e6 || bbr.Invalid != 1 {
		t.Errorf("the rejected sample entered: %+v", bbr)
	}
	if none := rows[1]; none.Estimate.N != 0 || none.Invalid != 1 {
		t.Errorf("a row without a valid sample: %+v", none)
	}
	if cubic := rows[2]; cubic.Estimate.Mean != 110e6 || !slices.Equal(cubic.Values, []float64{120e6, 100e6}) {
		t.Errorf("values not by repetition: %+v", cubic)
	}
	slices.Reverse(samples)
	if diff := cmp.Diff(rows, summary.Rows(samples)); diff != "" {
		t.Errorf("the order of samples matters:\n%s", diff)
	}
}

func TestFind(t *testing.T) {
	rows := summary.Rows([]record.Sample{sample("1%", "bbr", 1, 5)})
	if row, ok := summary.Find(rows, record.Labels{"cc": "bbr", "loss": "1%"}, "aggregate", "goodput"); !ok || row.Estimate.Mean != 5 {
		t.Errorf("found %+v, %t", row, ok)
	}
	if _, ok := summary.Find(rows, record.Labels{"cc": "bbr"}, "aggregate", "goodput"); ok {
		t.Error("found a row whose labels differ")
	}
}

func TestKeysAreUnambiguous(t *testing.T) {
	a := summary.KeyOf(record.Labels{"a": "b=c"}, "s", "m", "")
	b := summary.KeyOf(record.Labels{"a=b": "c"}, "s", "m", "")
	if a == b || summary.KeyOf(nil, "sm", "", "") == summary.KeyOf(nil, "s", "m", "") {
		t.Error("different quantities share a key")
	}
}

func TestTable(t *testing.T) {
	rows := summary.Rows([]record.Sample{sample("1%", "bbr", 1, 880e6), sample("1%", "bbr", 2, 890e6), sample("2%", "bbr", 1, 1e6)})
	table := summary.Table("Goodput", rows)
	want := [][]string{
		{"bbr", "1%", "aggregate", "goodput", "885 Mbit/s", "821.5–948.5 Mbit/s", "2", ""},
		{"bbr", "2%", "aggregate", "goodput", "1 Mbit/s", "–", "1", ""},
	}
	if diff := cmp.Diff(want, table.Rows); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"cc", "loss", "subject", "metric", "mean", "95 % interval", "n", "rejected"}, table.Columns); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
}
