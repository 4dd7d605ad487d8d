package chart

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
	for _, g := range b.groups {
		c.text(14, y+14, "start", "soft", g.title)
		y += 24
		for _, one := range g.bars {
			c.text(scale.from-8, y+12, "end", "", one.peer)
			end := scale.at(min(one.value, most))
			c.bar(scale.from, y, end-scale.from, barHeight, lookOf(one.peer))
			c.text(end+6, y+12, "start", "", one.text)
			y += barStep
		}
		y += 10
	}
	return c.finish(b.title, alone)
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
