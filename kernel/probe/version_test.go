// SPDX-License-Identifier: Apache-2.0

package probe

import "testing"

func TestVersionsAreCompared(t *testing.T) {
	for release, want := range map[string]bool{
		"6.16.0": true, "6.16": true, "6.18.5-cloud-amd64": true, "7.2.13": true, "10.0-rc1": true,
		"6.15.9": false, "6.12.117+deb12-cloud-amd64": false, "6.1.0-56-cloud-amd64": false, "5.19.0": false,
	} {
		t.Run(release, func(t *testing.T) {
			if got, err := since(release, 6, 16); err != nil || got != want {
				t.Errorf("%s is 6.16 or later: %t, %v", release, got, err)
			}
		})
	}
	if _, err := since("next", 6, 16); err == nil {
		t.Error(`"next" has a version`)
	}
}
