// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"errors"

	"weir/core/module"
	"weir/kernel/cgroup"
	"weir/kernel/netns"
	"weir/modules/limit/police"
)

// trialRate is the rate of the limit that a trial attaches.
const trialRate = 20_000_000

// Trials returns the bypass by connections that are open when a limit is attached.
func (Module) Trials() []module.Trial {
	return []module.Trial{{Name: "sockets open at the attach", Mechanism: "sockets that are open when a limit is attached", Rate: trialRate, Attach: attachTrial}}
}

// attachTrial attaches a separate data plane to a cgroup.
func attachTrial(path string) (module.Attached, error) {
	plane, err := police.LoadEgress(1)
	if err != nil {
		return module.Attached{}, err
	}
	note, err := limitTrial(plane, path)
	if err != nil {
		return module.Attached{}, errors.Join(err, plane.Close())
	}
	return module.Attached{Note: note, Close: plane.Close, Charged: func() (uint64, error) {
		counted, err := plane.Counters(0, Egress)
		return counted.Bytes, err
	}}, nil
}

func limitTrial(plane *police.DataPlane, path string) (note string, err error) {
	id, err := cgroup.Cgroup{Path: path}.ID()
	if err != nil {
		return "", err
	}
	here, err := netns.Current()
	if err != nil {
		return "", err
	}
	defer func() { _ = here.Close() }()
	if err := plane.AssignCgroup(id, 0); err != nil {
		return "", err
	}
	if err := plane.Set(0, Egress, Limit{Rate: trialRate}); err != nil {
		return "", err
	}
	if err := plane.Attach(path); err != nil {
		return "", err
	}
	if err := plane.Adopt(here); err != nil {
		return "but not paced: " + err.Error(), nil
	}
	return "and they are adopted for pacing, by the kernel's TCP iterator", nil
}
