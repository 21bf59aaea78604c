// SPDX-License-Identifier: Apache-2.0

package compare_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/record"
	"weir/record/compare"
)

// cell returns the samples of one quantity.
func cell(loss string, values ...float64) []record.Sample {
	var samples []record.Sample
	for i, v := range values {
		samples = append(samples, record.Sample{Labels: record.Labels{"loss": loss}, Subject: "aggregate", Metric: "goodput",
			Unit: record.BitPerSecond, Repetition: i + 1, Attempt: 1, Value: v, Valid: true})
	}
	return samples
}

func bundleOf(cells ...[]record.Sample) *record.Bundle {
	b := &record.Bundle{}
	for _, samples := range cells {
		b.Samples = append(b.Samples, samples...)
	}
	return b
}

func TestCompare(t *testing.T) {
	invalid := cell("30%", 1, 2)
	for i := range invalid {
		invalid[i].Valid = false
	}
	a := bundleOf(cell("0", 900e6, 901e6, 899e6), cell("1%", 300e6, 320e6, 310e6), cell("2%", 100e6), cell("10%", 1e6, 2e6), invalid)
	b := bundleOf(cell("0", 900e6, 902e6, 899e6), cell("1%", 600e6, 620e6, 610e6), cell("2%", 150e6), cell("20%", 1e6, 2e6), invalid)
	result := compare.Compare(a, b)
	want := [][]string{
		{"1%", "aggregate", "goodput", "310 Mbit/s", "610 Mbit/s", "300 Mbit/s", "277.3–322.7 Mbit/s", "+96.8 %", "differs"},
		{"2%", "aggregate", "goodput", "100 Mbit/s", "150 Mbit/s", "50 Mbit/s", "–", "+50.0 %", "too few repetitions to judge"},
		{"10%", "aggregate", "goodput", "1.5 Mbit/s", "–", "–", "–", "–", "missing in the second"},
		{"20%", "aggregate", "goodput", "–", "1.5 Mbit/s", "–", "–", "–", "missing in the first"},
	}
	table := result.Table()
	if diff := cmp.Diff(want, table.Rows); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(table.Note, "1 of 3 quantities") {
		t.Errorf("note: %s", table.Note)
	}
	if len(result.Rows) != 5 {
		t.Errorf("%d rows in all, want 5: one without a valid sample anywhere is left out", len(result.Rows))
	}
	if _, err := json.Marshal(result); err != nil {
		t.Error(err)
	}
}

func TestABundleDoesNotDifferFromItself(t *testing.T) {
	a := bundleOf(cell("0", 1, 2, 3), cell("1%", 5), cell("2%", 7, 7))
	if rows := compare.Compare(a, a).Differing(); len(rows) != 0 {
		t.Errorf("differing: %+v", rows)
	}
}

// 200 quantities from the same distribution: uncorrected, about 10 would count as different.
func TestManyComparisonsAreCorrected(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	var a, b record.Bundle
	for i := range 200 {
		draw := func() []record.Sample {
			return cell(fmt.Sprint(i), r.NormFloat64(), r.NormFloat64(), r.NormFloat64(), r.NormFloat64(), r.NormFloat64())
		}
		a.Samples = append(a.Samples, draw()...)
		b.Samples = append(b.Samples, draw()...)
	}
	alone := 0
	for _, row := range compare.Compare(&a, &b).Rows {
		if row.Significant {
			t.Errorf("called different by chance: %+v", row)
		}
		if row.Difference.Significant {
			alone++
		}
	}
	if alone == 0 {
		t.Error("the test shows nothing: no comparison alone was significant")
	}
}
