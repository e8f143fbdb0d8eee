package wallclock

import "time"

const interval = 2 * time.Second
