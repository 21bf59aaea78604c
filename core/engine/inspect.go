// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"weir/core/module"
)

// Inspected is the result of a module that inspected its own effect.
type Inspected struct {
	Module string `json:"module"`
	module.Inspection
}

// Inspectors returns the names of the active modules that [Engine.Inspect] can query.
func (e *Engine) Inspectors() (names []string, err error) {
	err = e.inspectors(func(name string, _ module.Inspector, _ module.State) error {
		names = append(names, name)
		return nil
	})
	return names, err
}

// Inspect makes the active modules compare their effect on the host with their promises. seed seeds
// random choices.
func (e *Engine) Inspect(ctx context.Context, seed uint64) (all []Inspected, err error) {
	err = e.inspectors(func(name string, i module.Inspector, have module.State) error {
		found, err := i.Inspect(ctx, have, seed)
		for _, one := range found {
			all = append(all, Inspected{name, one})
		}
		return err
	})
	return all, err
}

func (e *Engine) inspectors(do func(name string, i module.Inspector, have module.State) error) error {
	have, err := e.store().read(current)
	if err != nil {
		return err
	}
	for _, r := range e.Modules {
		part := have.of(r)
		i, inspects := e.Plane(r).(module.Inspector)
		if !inspects || part.Empty() {
			continue
		}
		if err := do(r.Name(), i, part); err != nil {
			return err
		}
	}
	return nil
}
