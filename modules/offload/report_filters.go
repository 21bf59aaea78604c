// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"errors"
	"fmt"

	"weir/core/module"
	"weir/modules/offload/flower"
)

// maxNamed bounds the misplaced rules that are named.
const maxNamed = 5

// reportFilters returns the counters of the rules, and whether they are where the policy requires
// them.
func (p *hostPlane) reportFilters(t *Treatment) (report module.Report, err error) {
	active, err := flower.Read(p.ns, p.host.Pins)
	if errors.Is(err, flower.ErrNone) {
		return module.Report{Note: []string{"offload: no fast path is active: the kernel forwards all packets"}}, nil
	}
	if err != nil {
		return report, err
	}
	s := seen{rules: &rules{}, ports: len(active.Ports)}
	s.counts.Forwarded.Packets, s.counts.Forwarded.Octets = active.Forwarded()
	lease, leased, err := active.Lease()
	if err != nil {
		return report, err
	}
	s.lease, s.leased = lease.Seconds(), leased
	for _, port := range active.Ports {
		s.rules.all += len(port.Filters)
		s.rules.hardware += port.InHardware()
		report.Note = append(report.Note, alarms(t, port)...)
	}
	if t.Backend == byHardware {
		s.rules.unasked = s.rules.all - s.rules.hardware
	}
	samples, err := flower.Samples(p.host.Pins)
	if err != nil {
		return report, err
	}
	defer samples.Close()
	note, err := s.choose(t, samples)
	if err != nil {
		return report, err
	}
	report.Note = append(report.Note, note...)
	left, err := p.leftOutNow(t)
	if err != nil {
		return report, err
	}
	report.Note = append(report.Note, left...)
	report.Host = module.ValuesOf(fields(), s)
	report.Note = append([]string{fmt.Sprintf("offload: %d packets were forwarded by %s, %d rules at %d ports, %d of them in the NIC", s.counts.Forwarded.Packets,
		mechanisms[t.Backend], s.rules.all, s.ports, s.rules.hardware)}, report.Note...)
	if leased && lease < 0 {
		report.Note = append(report.Note, "offload: the lease has expired without a daemon: the kernel forwards all packets; run weir daemon")
	}
	return report, nil
}

// alarms lists misplaced rules, and foreign filters.
func alarms(t *Treatment, port flower.Port) (all []string) {
	if t.Backend == byHardware {
		wrong := len(port.Filters) - port.InHardware()
		if wrong > 0 {
			all = append(all, fmt.Sprintf("offload: ALARM: %d of %d rules at %s are not in the NIC, although the policy requires all; weir apply writes them again, or reports the error of the NIC",
				wrong, len(port.Filters), port.Name))
		}
		for _, f := range port.Filters {
			if !f.InHW && len(all) <= maxNamed && wrong > 0 {
				all = append(all, fmt.Sprintf("offload: not in the NIC at %s: %s", port.Name, ruleOf(port.Name, f)))
			}
		}
	}
	if port.Foreign > 0 {
		text := fmt.Sprintf("offload: ALARM: offloaded packets bypass %d foreign tc filters at the ingress of %s", port.Foreign, port.Name)
		if t.Backend == byHardware {
			text += "; with them, the kernel runs all filters for every packet that the NIC leaves to it (Linux 6.10 skips them only if all are skip_sw)"
		}
		all = append(all, text)
	}
	return all
}
