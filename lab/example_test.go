// SPDX-License-Identifier: Apache-2.0

package lab_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"weir/lab"
	"weir/lab/run"
	"weir/lab/scenario"
	"weir/record/bundle"
)

// A shipped scenario with other losses, measured and kept as evidence. It needs root.
func ExampleExperiment() {
	s, err := scenario.Load("loss-quick")
	if err != nil {
		log.Fatal(err)
	}
	chosen, err := lab.Carrier("auto", s)
	if err != nil {
		log.Fatal(err)
	}
	generator, err := lab.Generator("weir")
	if err != nil {
		log.Fatal(err)
	}
	experiment := lab.Experiment{Scenario: s, Options: run.Options{Carrier: chosen.Carrier, CarrierReason: chosen.Reason, Generator: generator,
		Gate: run.Fidelity{}, Seed: 1, Stderr: os.Stderr}}
	measured, err := experiment.Measure(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	for _, v := range measured.Verdicts {
		fmt.Println(v.Name, v.Measured, v.Outcome)
	}
	if err := bundle.Write("evidence", measured); err != nil {
		log.Fatal(err)
	}
}
