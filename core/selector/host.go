// SPDX-License-Identifier: Apache-2.0

package selector

import "weir/core/policy"

// host matches all traffic of the host.
var host = Kind{
	SelectorKind: policy.SelectorKind{
		Key: "host", Doc: "All traffic of the host.", Sample: false, Everything: true,
		Parse: func(string) (string, string, error) { return "", "the whole host", nil },
	},
	Bind: func(h *Host, _ string) (Binding, error) { return bindCgroup(h.CgroupRoot) },
	Inside: func(h *Host, _ string) (Inside, string, error) {
		in, missing, err := insideCgroup(h.CgroupRoot, "all cgroups")
		in.Everything = true
		return in, missing, err
	},
}
