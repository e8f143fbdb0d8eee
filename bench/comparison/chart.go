package comparison

import (
	"fmt"
	"html"
	"strings"

	"github.com/onceward/onceward/bench/measure"
)

// The measures of the chart, in pixels.
const (
	chartWidth  = 760
	chartLabels = 130
	chartRight  = 90
	barHeight   = 18
	groupGap    = 34
)

// colours of the candidates, readable on white and on black.
var colours = map[string]string{
	Onceward: "#1a7f5a", Streams: "#a0aab4", StreamsTuned: "#c77d1e", StreamsSmall: "#e0b06a", Loop: "#5b7fc7",
}

// Chart is a picture, in SVG, of the rates in the steady state: a bar for the median of each
// candidate in each workload, and a line from the least to the greatest.
func (r Result) Chart() string {
	most, bars := 0.0, 0
	for _, c := range r.Comparisons {
		for _, name := range candidatesOf(c) {
			most, bars = max(most, measure.SpreadOf(c.values(name, rateK)).Max), bars+1
		}
	}
	height := bars*barHeight + len(r.Comparisons)*groupGap + groupGap
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n",
		chartWidth, height)
	fmt.Fprintf(&out, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", chartWidth, height)
	fmt.Fprintln(&out, `<text x="8" y="20" fill="#222222">steady state, thousand records per second: median, least to greatest</text>`)
	y := groupGap
	for _, c := range r.Comparisons {
		fmt.Fprintf(&out, `<text x="8" y="%d" font-weight="bold" fill="#222222">%s</text>`+"\n", y+groupGap/2+4,
			html.EscapeString(c.Workload))
		y += groupGap - 6
		for _, name := range candidatesOf(c) {
			out.WriteString(bar(y, name, measure.SpreadOf(c.values(name, rateK)), most))
			y += barHeight
		}
		y += 6
	}
	out.WriteString("</svg>\n")
	return out.String()
}

// bar draws one candidate at a height.
func bar(y int, name string, s measure.Spread, most float64) string {
	at := func(value float64) float64 {
		return chartLabels + value/max(most, 1)*(chartWidth-chartLabels-chartRight)
	}
	middle := float64(y) + barHeight/2 - 2
	var out strings.Builder
	fmt.Fprintf(&out, `<text x="%d" y="%.0f" text-anchor="end" fill="#222222">%s</text>`, chartLabels-6, middle+4,
		html.EscapeString(name))
	fmt.Fprintf(&out, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`, chartLabels, y, at(s.Median)-chartLabels, barHeight-4,
		colours[name])
	fmt.Fprintf(&out, `<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="#222222"/>`, at(s.Min), at(s.Max), middle, middle)
	fmt.Fprintf(&out, `<text x="%.1f" y="%.0f" fill="#222222">%.0f</text>`+"\n", at(s.Max)+6, middle+4, s.Median)
	return out.String()
}
