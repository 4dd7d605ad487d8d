package chart

import (
	"fmt"

	"github.com/relock-go/relock/bench/internal/results"
)

// bar is one peer's bar.
type bar struct {
	peer  string
	value float64
	text  string
}

// barChart is horizontal bars in groups, all on one linear scale that begins at 0.
type barChart struct {
	title  string
	note   string
	unit   string  // of the values
	max    float64 // of the scale; 0: the largest value
	groups []barGroup
}

type barGroup struct {
	title string
	bars  []bar
}

const (
	barStep   = 24
	barHeight = 15
)

func (b *barChart) draw(width float64, alone bool) string {
	names, texts, most := b.extent()
	top := headHeight(width, b.title, b.note)
	height := top
	for _, g := range b.groups {
		height += 34 + barStep*float64(len(g.bars))
	}
	c := &canvas{width: width, height: height}
	c.heading(b.title, b.note)
	scale := axis{min: 0, max: most, from: 14 + names + 8, to: width - texts - 20}
	y := top
	var tips []tip
	for _, g := range b.groups {
		c.text(14, y+14, "start", "soft", g.title)
		y += 24
		for _, one := range g.bars {
			c.text(scale.from-8, y+12, "end", "", one.peer)
			end := scale.at(min(one.value, most))
			c.bar(scale.from, y, end-scale.from, barHeight, lookOf(one.peer))
			c.text(end+6, y+12, "start", "", one.text)
			tips = append(tips, tip{at: point{14, y - 4}, width: width - 28, height: barStep,
				text: one.peer + ": " + b.tipText(one, g)})
			y += barStep
		}
		y += 10
	}
	if !alone { // a picture cannot be pointed at
		c.hover(tips)
	}
	return c.finish(b.title, alone)
}

// tipText is a bar's value and how it compares with the best of its group.
func (b *barChart) tipText(one bar, g barGroup) string {
	best := g.bars[0].value
	text := one.text + " " + b.unit
	if one.value == best || best <= 0 || one.value <= 0 {
		return text
	}
	if one.value < best {
		return fmt.Sprintf("%s, %s × less than the best", text, results.Decimal(best/one.value))
	}
	return fmt.Sprintf("%s, %s × the best", text, results.Decimal(one.value/best))
}

// extent returns how wide names and figures are, and the largest value.
func (b *barChart) extent() (names, texts, most float64) {
	most = b.max
	for _, g := range b.groups {
		for _, one := range g.bars {
			names, texts = max(names, textWidth(one.peer)), max(texts, textWidth(one.text))
			if b.max == 0 {
				most = max(most, one.value)
			}
		}
	}
	if most == 0 {
		most = 1
	}
	return names, texts, most
}
