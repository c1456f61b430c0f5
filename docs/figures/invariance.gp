set terminal svg size 760,460 dynamic rounded noenhanced font 'sans-serif,13' background rgb 'white'
set output 'invariance.svg'
set encoding utf8
set border 3
set tics nomirror out scale 0.6
set grid lt 1 lw 0.5 lc rgb '#d9d9d9'
set yrange [0:1.02]
set xlabel 'error, relative to no regulariser (geometric mean over tasks)'
set ylabel 'share of runs in which KCI finds no dependence'
set offsets graph 0.05, graph 0.15, 0, 0
unset key
plot 'invariance.dat' index 0 using 1:2:3:4 with yerrorbars lc rgb '#808080' pt 7 ps 0.9, \
     '' index 0 using 1:2:5 with labels left offset 1,0.5 tc rgb '#808080', \
     'invariance.dat' index 1 using 1:2:3:4 with yerrorbars lc rgb '#d55e00' pt 7 ps 0.9, \
     '' index 1 using 1:2:5 with labels left offset 1,0.5 tc rgb '#d55e00', \
     'invariance.dat' index 2 using 1:2:3:4 with yerrorbars lc rgb '#0072b2' pt 7 ps 0.9, \
     '' index 2 using 1:2:5 with labels left offset 1,0.5 tc rgb '#0072b2', \
     'invariance.dat' index 3 using 1:2:3:4 with yerrorbars lc rgb '#e69f00' pt 7 ps 0.9, \
     '' index 3 using 1:2:5 with labels left offset 1,0.5 tc rgb '#e69f00', \
     'invariance.dat' index 4 using 1:2:3:4 with yerrorbars lc rgb '#009e73' pt 7 ps 0.9, \
     '' index 4 using 1:2:5 with labels left offset 1,0.5 tc rgb '#009e73', \
     'invariance.dat' index 5 using 1:2:3:4 with yerrorbars lc rgb '#cc79a7' pt 7 ps 0.9, \
     '' index 5 using 1:2:5 with labels left offset 1,0.5 tc rgb '#cc79a7', \
     0.9 with lines lc rgb '#808080' dt 2
