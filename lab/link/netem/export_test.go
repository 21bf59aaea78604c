// SPDX-License-Identifier: Apache-2.0

package netem

import "weir/kernel/device"

// ByClsact returns a carrier as kernels without TCX have it.
func ByClsact() *Carrier { return by(device.Clsact) }
