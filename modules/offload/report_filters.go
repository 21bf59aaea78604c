// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"errors"
	"fmt"

	"weir/core/module"
	"weir/modules/offload/flower"
)

// told is how many rules that are in the wrong place are named.
const told = 5

// reportFilters tells what the rules have done, and whether they are where they were asked to be.
func (p *hostPlane) reportFilters(t *Treatment) (report module.Report, err error) {
	inForce, err := flower.Read(p.ns, p.host.Pins)
	if errors.Is(err, flower.ErrNone) {
		return module.Report{Note: []string{"offload: no fast path is in place: all packets are the kernel's"}}, nil
	}
	if err != nil {
		return report, err
	}
	s := seen{rules: &rules{}, ports: len(inForce.Ports)}
	s.counts.Forwarded.Packets, s.counts.Forwarded.Octets = inForce.Forwarded()
	lease, leased, err := inForce.Lease()
	if err != nil {
		return report, err
	}
	s.lease, s.leased = lease.Seconds(), leased
	for _, port := range inForce.Ports {
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
	report.Host = module.ValuesOf(fields(), s)
	report.Note = append([]string{fmt.Sprintf("offload: %d packets were forwarded by %s, %d rules at %d ports, of which the NIC does %d", s.counts.Forwarded.Packets,
		mechanisms[t.Backend], s.rules.all, s.ports, s.rules.hardware)}, report.Note...)
	if leased && lease < 0 {
		report.Note = append(report.Note, "offload: nobody follows the kernel's routing: all packets are the kernel's; run weir daemon")
	}
	return report, nil
}

// alarms tell of rules that are not where they were asked to be, and of filters of others.
func alarms(t *Treatment, port flower.Port) (all []string) {
	if t.Backend == byHardware {
		wrong := len(port.Filters) - port.InHardware()
		if wrong > 0 {
			all = append(all, fmt.Sprintf("offload: ALARM: %d of %d rules at %s are not in the NIC, though the policy asks for all or none; weir apply writes them again, or says why the NIC refuses",
				wrong, len(port.Filters), port.Name))
		}
		for _, f := range port.Filters {
			if !f.InHW && len(all) <= told && wrong > 0 {
				all = append(all, fmt.Sprintf("offload: not in the NIC at %s: %s", port.Name, ruleOf(port.Name, f)))
			}
		}
	}
	if port.Foreign > 0 {
		text := fmt.Sprintf("offload: ALARM: %d filters of others came to the ingress of %s, which offloaded packets do not pass", port.Foreign, port.Name)
		if t.Backend == byHardware {
			text += "; while they are there, the kernel asks its filters for every packet that the NIC leaves (skip_sw of all filters alone spares it, Linux 6.10)"
		}
		all = append(all, text)
	}
	return all
}
