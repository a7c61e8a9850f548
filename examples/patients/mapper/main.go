// Command mapper copies rows into what it shows by the names of their fields, with package reflect,
// for each row of each request.
//
// Cured, the copy is written by hand.
package main

import (
	"fmt"
	"net/http"
	"reflect"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

// rows is how many each request copies.
const rows = 2000

// row is what a database gives, and view what is shown of it.
type row struct {
	ID, Price, Stock, Reserved, Shelf, Weight int
	Hidden                                    bool
}

type view struct {
	ID, Price, Stock, Shelf, Weight int
}

func main() { ward.Main(shop) }

func shop(p *ward.Patient) (http.Handler, error) {
	table := make([]row, rows)
	for i := range table {
		table[i] = row{ID: i, Price: 3 * i, Stock: 7, Shelf: i % 13, Weight: 100 + i}
	}
	cp := byName
	if p.Cured {
		cp = byHand
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		shown, total := view{}, 0
		for i := range table {
			cp(&shown, &table[i])
			total += shown.Price
		}
		fmt.Fprintln(w, total, work.Do(3))
	}), nil
}

// byName is the disease.
func byName(to *view, from *row) {
	target, source := reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem()
	for i := range target.NumField() {
		if field := source.FieldByName(target.Type().Field(i).Name); field.IsValid() {
			target.Field(i).Set(field)
		}
	}
}

func byHand(to *view, from *row) {
	*to = view{
		ID:     from.ID,
		Price:  from.Price,
		Stock:  from.Stock,
		Shelf:  from.Shelf,
		Weight: from.Weight,
	}
}
