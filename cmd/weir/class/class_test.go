// SPDX-License-Identifier: Apache-2.0

package class

import (
	"strings"
	"testing"

	"weir/internal/fault"
)

// A path is traced to one host.
func TestWhatIsNoHostIsNotTraced(t *testing.T) {
	for _, to := range []string{"0.0.0.0", "::", "255.255.255.255", "224.0.0.1", "ff02::1"} {
		if status, stdout, stderr := commands.Call(t, "class", "trace", to); status != fault.Usage || stdout != "" || !strings.Contains(stderr, to+" is not the address of a host") {
			t.Errorf("%s: status %d, %s%s", to, status, stdout, stderr)
		}
	}
}
