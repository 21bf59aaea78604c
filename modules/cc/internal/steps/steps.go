// SPDX-License-Identifier: Apache-2.0

// Package steps runs single steps of rLEDBAT in the kernel for tests, with given acknowledgments.
package steps

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -g -Wall -Werror -mcpu=v3 -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu" -target bpfel -type steps_step -type rledbat -type rledbat_ack -type ledbat_tunables -type rshare -type ledbat_path -type ledbat_count steps steps.bpf.c

import (
	"fmt"
	"math"

	"github.com/cilium/ebpf"
)

// Types of the control, as the program lays them out.
type (
	Step     = stepsStepsStep
	State    = stepsRledbat
	Ack      = stepsRledbatAck
	Tunables = stepsLedbatTunables
	Share    = stepsRshare
	Path     = stepsLedbatPath
	Sharing  = stepsLedbatCount
)

// Shared holds the path and the scope of connections with one window.
type Shared struct {
	Path    Path
	Sharing Sharing
}

// NewShared returns those of a path without samples.
func NewShared(now uint32) *Shared {
	s := &Shared{}
	s.Path.Delays.Minute = now
	for i := range s.Path.Delays.Base {
		s.Path.Delays.Base[i] = math.MaxUint32
	}
	for i := range s.Path.Delays.Recent {
		s.Path.Delays.Recent[i] = math.MaxUint32
	}
	return s
}

// Steps is one connection's control.
type Steps struct {
	objects stepsObjects
	packet  []byte
}

// New loads the program.
func New() (*Steps, error) {
	s := &Steps{packet: make([]byte, 64)}
	if err := loadStepsObjects(&s.objects, nil); err != nil {
		return nil, fmt.Errorf("load steps: %w", err)
	}
	return s, nil
}

// Make makes a step from a state; one without a phase begins.
func (s *Steps) Make(state State, ack Ack, t Tunables) (Step, error) {
	return s.run(Step{State: state, Ack: ack, Tunables: t})
}

// MakeShared is Make for a connection with its share of a window.
func (s *Steps) MakeShared(state State, ack Ack, t Tunables, share Share, with *Shared) (Step, error) {
	step, err := s.run(Step{State: state, Ack: ack, Tunables: t, Shared: 1, Share: share, Path: with.Path, Sharing: with.Sharing})
	with.Path, with.Sharing = step.Path, step.Sharing
	return step, err
}

func (s *Steps) run(step Step) (Step, error) {
	if err := s.objects.StepsOf.Put(uint32(0), step); err != nil {
		return step, fmt.Errorf("set step: %w", err)
	}
	if _, err := s.objects.StepsMake.Run(&ebpf.RunOptions{Data: s.packet}); err != nil {
		return step, fmt.Errorf("make step: %w", err)
	}
	if err := s.objects.StepsOf.Lookup(uint32(0), &step); err != nil {
		return step, fmt.Errorf("read step: %w", err)
	}
	return step, nil
}

// Close ends it.
func (s *Steps) Close() error { return s.objects.Close() }
