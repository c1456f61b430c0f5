set terminal svg size 960,400 dynamic rounded noenhanced font 'sans-serif,13' background rgb 'white'
set output 'inference_levels.svg'
set encoding utf8
set border 3
set tics nomirror out scale 0.6
set grid lt 1 lw 0.5 lc rgb '#d9d9d9'
set yrange [0:0.14]
set key top left Left reverse maxrows 4 samplen 1.5
set multiplot layout 1,2
set title 'y on the unit circle'
set xlabel 'rows N'
set ylabel 'rejected without dependence'
set offsets graph 0.08, graph 0.08, 0, 0
plot 'inference_levels.dat' index 0 using 1:2:3:4 with yerrorbars lc rgb '#e69f00' pt 7 ps 0.6 title 'gcm', \
     'inference_levels.dat' index 1 using 1:2:3:4 with yerrorbars lc rgb '#0072b2' pt 7 ps 0.6 title 'kci, gamma', \
     'inference_levels.dat' index 2 using 1:2:3:4 with yerrorbars lc rgb '#d55e00' pt 7 ps 0.6 title 'circe', \
     'inference_levels.dat' index 3 using 1:2:3:4 with yerrorbars lc rgb '#cc79a7' pt 7 ps 0.6 title 'circe, auxiliary', \
     'inference_levels.dat' index 4 using 1:2:3:4 with yerrorbars lc rgb '#009e73' pt 7 ps 0.6 title 'splitkci', \
     0.05 with lines lc rgb '#808080' title 'level', \
     0.065 with lines lc rgb '#808080' dt 2 title 'to reach'
unset key
set xtics 1
set title 'post-nonlinear, n = 500'
set xlabel 'dimensions of y'
set ylabel 'rejected without dependence'
set offsets graph 0.08, graph 0.08, 0, 0
plot 'inference_levels.dat' index 5 using 1:2:3:4 with yerrorbars lc rgb '#e69f00' pt 7 ps 0.6 title 'gcm', \
     'inference_levels.dat' index 6 using 1:2:3:4 with yerrorbars lc rgb '#0072b2' pt 7 ps 0.6 title 'kci, gamma', \
     'inference_levels.dat' index 7 using 1:2:3:4 with yerrorbars lc rgb '#d55e00' pt 7 ps 0.6 title 'circe', \
     'inference_levels.dat' index 8 using 1:2:3:4 with yerrorbars lc rgb '#009e73' pt 7 ps 0.6 title 'splitkci', \
     0.05 with lines lc rgb '#808080' title 'level', \
     0.065 with lines lc rgb '#808080' dt 2 title 'to reach'
unset multiplot
