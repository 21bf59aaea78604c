// SPDX-License-Identifier: Apache-2.0

package run

import (
	"cmp"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"weir/lab/scenario"
	"weir/lab/traffic"
)

// job is one repetition of one cell.
type job struct {
	cell       int
	repetition int
}

// withSolos returns the cells, each followed by its runs of single flows.
func withSolos(cells []scenario.Cell) []scenario.Cell {
	runs := slices.Clone(cells)
	for i := range cells {
		runs = append(runs, cells[i].Solos()...)
	}
	return runs
}

// order returns every repetition of every cell in an order drawn from the seed. Repetitions are
// blocks, shuffled within, so that drift of the machine over a study affects all cells alike (a
// randomised block design).
func order(cells, repetitions int, seed uint64) []job {
	random := rand.New(rand.NewPCG(seed, 0x6c61_6265))
	jobs := make([]job, 0, cells*repetitions)
	for repetition := 1; repetition <= repetitions; repetition++ {
		for _, cell := range random.Perm(cells) {
			jobs = append(jobs, job{cell: cell, repetition: repetition})
		}
	}
	return jobs
}

// seeded gives every emulated link of the cell and all transfers random seeds of their own for this
// attempt, drawn from the study's seed. A seed in the scenario is kept.
func seeded(cell *scenario.Cell, seed uint64, j job, attempt int) *scenario.Cell {
	random := rand.New(rand.NewPCG(seed, uint64(j.cell)<<32|uint64(j.repetition)<<8|uint64(attempt)))
	own := *cell
	own.Links = slices.Clone(cell.Links)
	for i := range own.Links {
		own.Links[i].Forward.Seed = cmp.Or(own.Links[i].Forward.Seed, random.Uint64())
		own.Links[i].Reverse.Seed = cmp.Or(own.Links[i].Reverse.Seed, random.Uint64())
	}
	own.Phases = slices.Clone(cell.Phases)
	for i := range own.Phases {
		own.Phases[i].Flows = seededFlows(own.Phases[i].Flows, seed, i, j.repetition)
	}
	return &own
}

// seededFlows gives every flow of transfers in a phase its arrivals and sizes. They are the same in
// each cell and attempt, so that cells differ in the compared parameter only, and different in each
// repetition.
func seededFlows(flows []traffic.Flow, seed uint64, phase, repetition int) []traffic.Flow {
	flows = slices.Clone(flows)
	for i := range flows {
		if flows[i].Load == nil {
			continue
		}
		name := fnv.New64a()
		_, _ = name.Write([]byte(flows[i].Name))
		load := *flows[i].Load
		load.Seed = rand.NewPCG(seed^name.Sum64(), uint64(phase)<<32|uint64(repetition)).Uint64()
		flows[i].Load = &load
	}
	return flows
}

// trafficTime is the duration of the cell's phases.
func trafficTime(cell *scenario.Cell) time.Duration {
	var total time.Duration
	for _, phase := range cell.Phases {
		total += phase.Duration
	}
	return total
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
